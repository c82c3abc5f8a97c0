// Files a run writes for programs: metrics.jsonl as it goes, and the summary at its end.
//
// What it is for: one place for their keys (docs/ARCHITECTURE.md lists them). What it does not do:
// print. Thread rule: MetricsFile is used by one thread; the rest are free functions.
#pragma once

#include "runtime/actors/train.hpp"
#include "runtime/base/status.hpp"

#include <nlohmann/json_fwd.hpp>

#include <fstream>
#include <string>

namespace headrace::cli {

// One JSON object per committed step, a line each, flushed at once.
class MetricsFile {
 public:
  // kUsage with path and reason when it cannot be written. An existing file is replaced.
  [[nodiscard]] Status open(const std::string& path);
  void append(const actors::StepRecord& record);

 private:
  std::ofstream file_;
};

struct SpeedFigures {
  double tokens_per_second = 0;    // over all steps but the first
  double step_seconds_median = 0;  // of the same steps
  double bubble_global = 0;        // measured, weighted by time
};
[[nodiscard]] SpeedFigures speed_of(const actors::RunResult& result);

[[nodiscard]] nlohmann::ordered_json summary_of(const actors::Plan& plan,
                                                const actors::RunResult& result);
// kUsage with path and reason when a summary could not be written there. Leaves nothing behind.
[[nodiscard]] Status check_summary_path(const std::string& path);
// Called when a run starts: if it fails, nobody takes an earlier run's summary for its own. Devices
// and pipes stay.
[[nodiscard]] Status remove_old_summary(const std::string& path);
// Written aside and renamed, so that a reader never sees half of it.
[[nodiscard]] Status write_summary(const std::string& path, const actors::Plan& plan,
                                   const actors::RunResult& result);

}  // namespace headrace::cli
