// What a person sees of a run: a live line on a terminal, a log line per step otherwise, a closing
// report.
//
// What it is for: reading progress and the figures at the end. What it does not do: write files.
// Thread rule: RunView is called on the scheduler's thread while the run lasts.
#pragma once

#include "runtime/actors/train.hpp"
#include "tools/cli/run_files.hpp"

#include <cstdint>
#include <string>

namespace headrace::cli {

class RunView final : public actors::RunObserver {
 public:
  // metrics may be null and outlives the view.
  RunView(const actors::Plan& plan, MetricsFile* metrics);
  void on_step(const actors::StepRecord& record) override;
  // Ends the live line, if there is one.
  void finish();

 private:
  void show_live(const actors::StepRecord& record, double tokens_per_second);

  const std::int64_t steps_;
  const std::int64_t log_every_;
  const bool terminal_;
  MetricsFile* metrics_;
  double seconds_ = 0;  // since the first step ended
  std::int64_t tokens_ = 0;
  std::int64_t shown_ns_ = 0;
};

// Seconds as `1:02:03` or `4:05`.
[[nodiscard]] std::string clock_text(double seconds);

// Closing report on stdout: losses, speed, bubble, activations, and where each rank's time went.
void print_report(const actors::Plan& plan, const actors::RunResult& result);
// The text's own bigram entropy beside the loss, for byte vocabularies; says nothing for others.
void print_entropy(const actors::Plan& plan, double last_loss);

}  // namespace headrace::cli
