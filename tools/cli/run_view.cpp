#include "tools/cli/run_view.hpp"

#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/data/corpus.hpp"
#include "runtime/data/statistics.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <iostream>
#include <unistd.h>

namespace headrace::cli {
namespace {

constexpr std::int64_t kLiveEveryNs = 100'000'000;

std::string number(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string join(const std::vector<std::int32_t>& values) {
  std::string text;
  for (std::int32_t value : values) text += (text.empty() ? "" : " ") + std::to_string(value);
  return text;
}

void print_times(const actors::RunResult& result) {
  std::cout
      << "\nwhere the time went, seconds\n"
      << "  rank   compute  wait-act  wait-grad  optimizer      data  oversubscribed     wall\n";
  for (std::size_t r = 0; r < result.times.size(); ++r) {
    const auto& seconds = result.times[r].seconds;
    double wall = 0;
    for (double part : seconds) wall += part;
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "  %4zu %9.3f %9.3f %10.3f %10.3f %9.3f %15.3f %8.3f\n",
                  r, seconds[0], seconds[1], seconds[2], seconds[3], seconds[4], seconds[5], wall);
    std::cout << line.data();
  }
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::max(seconds, 0.0) + 0.5);
  std::array<char, 32> text{};
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%lld:%02lld:%02lld",
                  static_cast<long long>(whole / 3600), static_cast<long long>(whole / 60 % 60),
                  static_cast<long long>(whole % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%lld:%02lld", static_cast<long long>(whole / 60),
                  static_cast<long long>(whole % 60));
  }
  return text.data();
}

RunView::RunView(const actors::Plan& plan, MetricsFile* metrics)
    : steps_(plan.config.run.steps),
      log_every_(plan.config.run.log_every),
      terminal_(isatty(STDERR_FILENO) == 1),
      metrics_(metrics) {}

void RunView::on_step(const actors::StepRecord& record) {
  if (metrics_ != nullptr) metrics_->append(record);
  if (record.step.value > 1) {
    seconds_ += record.seconds;
    tokens_ += record.tokens;
  }
  const double rate = seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0.0;
  if (terminal_) {
    show_live(record, rate);
    return;
  }
  if (record.step.value % log_every_ != 0 && record.step.value != steps_) return;
  log(LogLevel::kInfo, "train", "step",
      {{"step", record.step.value},
       {"loss", number("%.6f", record.loss)},
       {"grad_norm", number("%.6f", record.grad_norm)},
       {"learning_rate", number("%.3e", record.learning_rate)},
       {"tokens_per_second", number("%.0f", rate)},
       {"bubble", number("%.3f", record.bubble)}});
}

void RunView::show_live(const actors::StepRecord& record, double rate) {
  const std::int64_t now = monotonic_now_ns();
  if (now - shown_ns_ < kLiveEveryNs && record.step.value != steps_) return;
  shown_ns_ = now;
  const std::int64_t done = std::max<std::int64_t>(record.step.value - 1, 1);
  const double left =
      seconds_ / static_cast<double>(done) * static_cast<double>(steps_ - record.step.value);
  // The cursor waits in the first column, so that a log line overwrites this one.
  std::fprintf(stderr,
               "\r\033[Kstep %lld/%lld  loss %.4f  %.0f tokens/s  bubble %.0f %%  %s left\r",
               static_cast<long long>(record.step.value), static_cast<long long>(steps_),
               record.loss, rate, 100.0 * record.bubble, clock_text(left).c_str());
  std::fflush(stderr);
}

void RunView::finish() {
  if (terminal_ && shown_ns_ != 0) std::fputc('\n', stderr);
}

void print_report(const actors::Plan& plan, const actors::RunResult& result) {
  if (result.steps.empty()) {
    std::cout << "no steps were run; state " << result.state_hash << '\n';
    return;
  }
  const SpeedFigures speed = speed_of(result);
  std::cout << "\n"
            << plan.program.schedule << " on " << plan.program.ranks << " ranks, "
            << plan.program.stages << " stages, " << plan.program.microbatches << " microbatches, "
            << stages::parameter_count(plan.model) << " parameters\n"
            << "loss            first " << number("%.4f", result.steps.front().loss) << ", last "
            << number("%.4f", result.steps.back().loss) << " nats per token\n"
            << "speed           " << number("%.0f", speed.tokens_per_second) << " tokens/s, "
            << number("%.1f", 1e3 * speed.step_seconds_median) << " ms per step, "
            << clock_text(result.wall_seconds) << " in all\n"
            << "bubble, global  measured " << number("%.1f", 100 * speed.bubble_global)
            << " %, predicted for these cores " << number("%.1f", 100 * result.bubble_predicted)
            << " %\n"
            << "activations     peak " << join(result.peak_activations) << " per rank, bound "
            << join(result.peak_activations_bound) << "\n"
            << "state           " << result.state_hash << "\n";
  print_times(result);
}

void print_entropy(const actors::Plan& plan, double last_loss) {
  if (!plan.config.model.vocabulary.bytes) return;
  data::CorpusOptions options;
  options.path = plan.config.data.train;
  options.context = plan.config.model.context;
  const auto corpus = data::open_corpus(options);
  if (!corpus) return;
  const auto statistics = data::byte_statistics(*corpus);
  if (!statistics) return;
  std::cout << "\nthis text       bigram entropy " << number("%.4f", statistics->bigram_nats)
            << " nats per byte; the model's last loss " << number("%.4f", last_loss)
            << (last_loss < statistics->bigram_nats
                    ? " is below it: it uses more than the last byte\n"
                    : " is not below it yet\n");
}

}  // namespace headrace::cli
