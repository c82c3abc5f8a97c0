// `headrace train`: all ranks of a config in this process.
#include "runtime/actors/train.hpp"
#include "runtime/base/log.hpp"
#include "runtime/config/load.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/plan.hpp"
#include "tools/cli/run_files.hpp"
#include "tools/cli/run_view.hpp"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace headrace::cli {
namespace {

struct TrainOptions {
  std::string path;
  std::vector<std::string> overrides;
  std::string summary;
  std::string log_level = "info";
};

// Written by the handler, read by the scheduler at each step boundary.
std::atomic<int> caught_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int number) {
  caught_signal.store(number);
  // A second one of either kind ends the process at once.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

LogLevel log_level_of(const std::string& name) {
  if (name == "debug") return LogLevel::kDebug;
  if (name == "warning") return LogLevel::kWarning;
  return name == "error" ? LogLevel::kError : LogLevel::kInfo;
}

Status finish(const TrainOptions& options, const actors::Plan& plan,
              const actors::RunResult& result, ChosenCommand& chosen) {
  if (result.status.is_ok() && !options.summary.empty()) {
    HEADRACE_RETURN_IF_ERROR(write_summary(options.summary, plan, result));
  }
  if (!result.status.is_ok()) return result.status;
  print_report(plan, result);
  if (!result.steps.empty()) print_entropy(plan, result.steps.back().loss);
  if (result.signal != 0) {
    chosen.stopped_by_signal = result.signal;
    std::cerr << "stopped by signal " << result.signal << " after step "
              << result.steps.back().step.value << " of " << plan.config.run.steps
              << "; nothing was saved, since this build has no checkpoints\n";
  }
  return Status::ok();
}

// No output may be one of the inputs or the other output.
Status check_distinct(const TrainOptions& options, const config::Config& config) {
  const std::string metrics = config.run.metrics.value_or("");
  const auto same = [](const std::string& a, const std::string& b) {
    std::error_code ignored;
    return !a.empty() && !b.empty() && (a == b || std::filesystem::equivalent(a, b, ignored));
  };
  for (const auto& [output, name] :
       {std::pair(options.summary, "--summary"), std::pair(metrics, "run.metrics")}) {
    if (same(output, options.path) || same(output, config.data.train)) {
      return {StatusCode::kUsage,
              std::string(name) + ": " + output + " is an input of this run; name another file"};
    }
  }
  if (!same(options.summary, metrics)) return Status::ok();
  return {StatusCode::kUsage,
          "--summary and run.metrics are the same file " + metrics + "; name two files"};
}

Status train(const TrainOptions& options, ChosenCommand& chosen) {
  const auto config = config::load_config(options.path, options.overrides);
  if (!config) return config.status();
  const auto plan = plan_of(options.path, *config);
  if (!plan) return plan.status();
  // Found out now, and not after hours of training.
  HEADRACE_RETURN_IF_ERROR(check_distinct(options, *config));
  if (!options.summary.empty()) HEADRACE_RETURN_IF_ERROR(check_summary_path(options.summary));
  set_log_level(log_level_of(options.log_level));
  log(LogLevel::kInfo, "train", "config",
      {{"file", options.path}, {"hash", config::config_hash(*config)}});
  log(LogLevel::kDebug, "train", "resolved config", {{"yaml", config::resolved_yaml(*config)}});
  MetricsFile metrics;
  if (config->run.metrics) HEADRACE_RETURN_IF_ERROR(metrics.open(*config->run.metrics));
  if (!options.summary.empty()) HEADRACE_RETURN_IF_ERROR(remove_old_summary(options.summary));
  std::cerr << actors::describe(*plan);
  RunView view(*plan, config->run.metrics ? &metrics : nullptr);
  std::signal(SIGINT, on_signal);
  std::signal(SIGTERM, on_signal);
  actors::RunOptions run_options;
  run_options.observer = &view;
  run_options.signal = &caught_signal;
  const actors::RunResult result = actors::train(*plan, run_options);
  view.finish();
  const Status status = finish(options, *plan, result, chosen);
  if (result.stuck) {
    // A rank's thread never came back: destructors would wait for it.
    std::cerr << status.message() << '\n';
    std::cerr.flush();
    std::_Exit(status.is_ok() && result.signal != 0 ? 128 + result.signal
                                                    : exit_code(status.code()));
  }
  return status;
}

}  // namespace

void add_train_command(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* command =
      app.add_subcommand("train", "Train: all ranks of a configuration in this process");
  auto options = std::make_shared<TrainOptions>();
  command->add_option("CONFIG", options->path, "The YAML file")->required();
  command->add_option("--set", options->overrides, "section.key=value, under the same rules")
      ->allow_extra_args(false);
  command->add_option("--summary", options->summary,
                      "Write the run's figures to this file as JSON");
  command
      ->add_option("--log-level", options->log_level,
                   "Least level that is logged; debug adds the resolved configuration")
      ->check(CLI::IsMember({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  command->footer(
      "Progress goes to stderr: a live line on a terminal, else a log line per step; the closing\n"
      "report to stdout. run.metrics names a file that gets a JSON line per step. Ctrl-C or "
      "SIGTERM\n"
      "stops at the next step boundary (exit 130 or 143); a second one stops at once.");
  command->callback(
      [options, &chosen] { chosen.run = [options, &chosen] { return train(*options, chosen); }; });
}

}  // namespace headrace::cli
