#include "tools/cli/run_files.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace headrace::cli {
namespace {

Status unwritable(const std::string& path) {
  return {StatusCode::kUsage, path + ": cannot be written: " + std::strerror(errno)};
}

// The first step carries first-touch costs and would hide the steady state.
std::vector<actors::StepRecord> steady(const actors::RunResult& result) {
  if (result.steps.size() < 2) return result.steps;
  return {result.steps.begin() + 1, result.steps.end()};
}

}  // namespace

Status MetricsFile::open(const std::string& path) {
  file_.open(path, std::ios::trunc);
  return file_ ? Status::ok() : unwritable(path);
}

void MetricsFile::append(const actors::StepRecord& record) {
  nlohmann::ordered_json line;
  line["step"] = record.step.value;
  line["loss"] = record.loss;
  line["grad_norm"] = record.grad_norm;
  line["learning_rate"] = record.learning_rate;
  line["seconds"] = record.seconds;
  line["tokens"] = record.tokens;
  line["supervised_tokens"] = record.supervised_tokens;
  line["epoch"] = record.epoch;
  line["bubble_global"] = record.bubble;
  file_ << line.dump() << '\n' << std::flush;
}

SpeedFigures speed_of(const actors::RunResult& result) {
  SpeedFigures figures;
  std::vector<double> seconds;
  double total = 0;
  double idle = 0;
  double tokens = 0;
  for (const actors::StepRecord& record : steady(result)) {
    seconds.push_back(record.seconds);
    total += record.seconds;
    idle += record.bubble * record.seconds;
    tokens += static_cast<double>(record.tokens);
  }
  if (seconds.empty() || total <= 0) return figures;
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  figures.step_seconds_median = *middle;
  figures.tokens_per_second = tokens / total;
  figures.bubble_global = idle / total;
  return figures;
}

namespace {

// Mean seconds of F, I and W per stage, over its replicas: what `schedule compare --summary` reads.
nlohmann::ordered_json stage_seconds(const actors::Plan& plan, const actors::RunResult& result) {
  const auto mean = [](double sum, std::int64_t count) {
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
  };
  std::vector<actors::StageSeconds> sums(plan.partition.size());
  for (std::size_t r = 0; r < result.times.size(); ++r) {
    const auto held = actors::stages_of(plan, Rank(static_cast<std::int32_t>(r)));
    const auto& measured = result.times[r].stages;
    for (std::size_t chunk = 0; chunk < std::min(held.size(), measured.size()); ++chunk) {
      const actors::StageSeconds& from = measured[chunk];
      actors::StageSeconds& sum = sums[held[chunk].stage.index()];
      sum.forward += from.forward, sum.forwards += from.forwards;
      sum.backward_input += from.backward_input, sum.backward_inputs += from.backward_inputs;
      sum.backward_weight += from.backward_weight, sum.backward_weights += from.backward_weights;
    }
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const actors::StageSeconds& sum : sums) {
    rows.push_back({{"F", mean(sum.forward, sum.forwards)},
                    {"I", mean(sum.backward_input, sum.backward_inputs)},
                    {"W", mean(sum.backward_weight, sum.backward_weights)}});
  }
  return rows;
}

}  // namespace

nlohmann::ordered_json summary_of(const actors::Plan& plan, const actors::RunResult& result) {
  const SpeedFigures speed = speed_of(result);
  nlohmann::ordered_json summary;
  summary["first_step"] = result.first_step;
  summary["steps"] = result.steps.size();
  summary["loss"] = nlohmann::ordered_json::array();
  summary["grad_norm"] = nlohmann::ordered_json::array();
  for (const actors::StepRecord& record : result.steps) {
    summary["loss"].push_back(record.loss);
    summary["grad_norm"].push_back(record.grad_norm);
  }
  summary["state_hash"] = result.state_hash;
  summary["numerics_id"] = result.numerics_id;
  summary["tokens_per_second"] = speed.tokens_per_second;
  summary["step_seconds_median"] = speed.step_seconds_median;
  summary["bubble_global"] = speed.bubble_global;
  summary["bubble_predicted"] = result.bubble_predicted;
  summary["peak_activations"] = result.peak_activations;
  summary["peak_activations_bound"] = result.peak_activations_bound;
  summary["cpu_us_per_action"] = result.cpu_us_per_action;
  summary["stage_seconds"] = stage_seconds(plan, result);
  summary["partition"] = nlohmann::ordered_json::array();
  for (const auto& stage : plan.partition) {
    summary["partition"].push_back(stages::to_string(stage));
  }
  summary["parameters"] = stages::parameter_count(plan.model);
  return summary;
}

namespace {

// The file behind a link is what gets replaced, never the link; also where that file is missing.
std::string target_of(const std::string& path) {
  constexpr int kLinksFollowed = 40;  // as many as the system follows
  std::error_code ignored;
  std::filesystem::path target(path);
  for (int i = 0; i < kLinksFollowed && std::filesystem::is_symlink(target, ignored); ++i) {
    target = target.parent_path() / std::filesystem::read_symlink(target, ignored);
  }
  return target.string();
}

// Devices and pipes are written to as they are; replacing one would destroy it.
bool is_special(const std::string& path) {
  std::error_code ignored;
  const auto found = std::filesystem::status(path, ignored);
  return std::filesystem::exists(found) && !std::filesystem::is_regular_file(found) &&
         !std::filesystem::is_directory(found);
}

std::string aside_of(const std::string& path) {
  return path + ".partial-" + std::to_string(getpid());
}

}  // namespace

Status check_summary_path(const std::string& path) {
  if (is_special(path)) return Status::ok();
  const std::string aside = aside_of(target_of(path));
  if (!std::ofstream(aside, std::ios::trunc)) return unwritable(aside);
  std::remove(aside.c_str());
  if (struct stat found{}; stat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode)) {
    return {StatusCode::kUsage, path + ": cannot be written: it is a folder"};
  }
  return Status::ok();
}

Status remove_old_summary(const std::string& path) {
  if (is_special(path) || std::remove(target_of(path).c_str()) == 0 || errno == ENOENT) {
    return Status::ok();
  }
  return unwritable(path);
}

Status write_summary(const std::string& path, const actors::Plan& plan,
                     const actors::RunResult& result) {
  const std::string target = target_of(path);
  const bool special = is_special(path);
  const std::string aside = special ? path : aside_of(target);
  std::ofstream file(aside, special ? std::ios::out : std::ios::trunc);
  if (!file) return unwritable(aside);
  file << summary_of(plan, result).dump(2) << '\n';
  file.close();
  if (!file || (!special && std::rename(aside.c_str(), target.c_str()) != 0)) {
    return unwritable(path);
  }
  return Status::ok();
}

}  // namespace headrace::cli
