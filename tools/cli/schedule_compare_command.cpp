#include "runtime/config/load.hpp"
#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_compare.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>

namespace headrace::cli {
namespace {

struct CompareOptions {
  std::string config;
  std::vector<std::string> overrides;
  std::string summary;
  std::string times;
  CompareRequest request;
  bool json = false;
};

Status refuse(const std::string& message) { return {StatusCode::kUsage, message}; }

Status check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (schedules::find_schedule(name) == nullptr)
      return refuse("--only " + name + ": unknown; see `headrace schedule list`");
  }
  return Status::ok();
}

// Sizes from the configuration; the command line may not contradict them.
Status take_config(const CompareOptions& options, CompareRequest& request) {
  if (options.config.empty()) {
    if (request.ranks != 0 && request.microbatches != 0) return Status::ok();
    return refuse("schedule compare needs a CONFIG, or --ranks P and --microbatches M");
  }
  if (request.ranks != 0 || request.microbatches != 0)
    return refuse("--ranks and --microbatches come from " + options.config +
                  "; leave them out, or use --set pipeline.ranks=… and --set batch.size=…");
  auto config = config::load_config(options.config, options.overrides);
  if (!config) return config.status();
  request.ranks = config->pipeline.ranks;
  request.microbatches = config->batch.microbatches();
  request.config = *std::move(config);
  return Status::ok();
}

Status take_times(const CompareOptions& options, CompareRequest& request) {
  if (!options.summary.empty()) {
    auto share = read_summary(options.summary, request.ranks);
    if (!share) return share.status();
    request.share = *std::move(share);
    return Status::ok();
  }
  const auto times = parse_times(options.times);
  if (!times) return times.status();
  request.share.times = *times;
  request.share.origin =
      !options.times.empty() ? "as given"
      : options.config.empty()
          ? "relative, F = I = W = 1"
          : "relative: the model's estimate per stage, with F = I = W and 1 the mean share's F";
  return Status::ok();
}

Json times_json(const CompareRequest& request) {
  const ActionTimes& times = request.share.times;
  Json result{{"F", times.forward},
              {"B", times.backward},
              {"I", times.backward_input},
              {"W", times.backward_weight},
              {"hop", request.hop},
              {"unit", request.share.unit},
              {"origin", request.share.origin},
              {"per", "rank's share of the model, 1/P"}};
  if (request.gradient_after_input) result["gradient_after_input"] = true;
  if (!times.note.empty()) result["note"] = times.note;
  return result;
}

Json row_json(const CompareRequest& request, const CompareRow& row) {
  Json entry{{"schedule", row.name},           {"chunks", row.chunks},
             {"makespan", row.makespan},       {"bubble_global", row.bubble_global},
             {"bubble_span", row.bubble_span}, {"peak_activations", row.peak},
             {"peak_share", row.peak_share},   {"hops", row.hops},
             {"replicas", row.replicas}};
  if (request.config) {
    if (row.bytes_max)
      entry["bytes"] = *row.bytes_max;
    else
      entry["bytes"] = nullptr;
    if (!row.bytes_reason.empty()) entry["bytes_reason"] = row.bytes_reason;
  }
  if (request.limit > 0) entry["over_limit"] = row.over_limit;
  return entry;
}

void print_json(const CompareRequest& request, const Comparison& comparison) {
  Json result{{"ranks", request.ranks}, {"microbatches", request.microbatches}};
  result["times"] = times_json(request);
  if (request.limit > 0) result["limit"] = request.limit;
  result["schedules"] = Json::array();
  for (const CompareRow& row : comparison.rows)
    result["schedules"].push_back(row_json(request, row));
  result["absent"] = Json::array();
  for (const AbsentRow& row : comparison.absent)
    result["absent"].push_back({{"schedule", row.name}, {"reason", row.reason}});
  std::cout << result.dump(2) << "\n";
}

std::string bytes_text(const CompareRow& row) {
  if (!row.bytes_max) return "-";
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.1f MiB", static_cast<double>(*row.bytes_max) / 1048576);
  return buffer;
}

std::string two_decimals(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.2f", value);
  return buffer;
}

// Seconds are read as milliseconds; other units are the user's.
std::string time_text(double time, const std::string& unit) {
  if (unit.empty()) return number_text(time);
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.4g ms", time * 1e3);
  return buffer;
}

std::vector<std::string> cells_of(const CompareRequest& request, const CompareRow& row) {
  std::vector<std::string> cells{row.name + (row.over_limit ? " (over limit)" : ""),
                                 std::to_string(row.chunks),
                                 time_text(row.makespan, request.share.unit),
                                 percent_text(row.bubble_global),
                                 percent_text(row.bubble_span),
                                 std::to_string(row.peak),
                                 two_decimals(row.peak_share),
                                 number_text(row.hops),
                                 std::to_string(row.replicas)};
  if (request.config) cells.push_back(bytes_text(row));
  return cells;
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    std::string line = row[0] + std::string(widths[0] - row[0].size(), ' ');
    for (std::size_t c = 1; c < row.size(); ++c)
      line += "  " + std::string(widths[c] - row[c].size(), ' ') + row[c];
    std::cout << line << "\n";
  }
}

void print_text(const CompareRequest& request, const Comparison& comparison) {
  const ActionTimes& times = request.share.times;
  const std::string& unit = request.share.unit;
  std::cout << request.ranks << " ranks, " << request.microbatches
            << " microbatches; times of a rank's share of the model (1/P), for one microbatch:\n"
            << "F " << time_text(times.forward, unit) << ", B " << time_text(times.backward, unit)
            << ", I " << time_text(times.backward_input, unit) << ", W "
            << time_text(times.backward_weight, unit) << ", hop " << time_text(request.hop, unit)
            << " (" << request.share.origin << ")"
            << (request.gradient_after_input ? "; gradients leave after I" : "") << "\n";
  if (!times.note.empty()) std::cout << times.note << "\n";
  std::cout << "with V chunks a stage takes 1/V of them: the same model in P V stages\n\n";
  std::vector<std::vector<std::string>> table{{"schedule", "V", "makespan", "bubble global",
                                               "bubble span", "peak", "of model", "hops",
                                               "replicas"}};
  if (request.config) table.front().emplace_back("bytes, max");
  for (const CompareRow& row : comparison.rows) table.push_back(cells_of(request, row));
  print_table(table);
  std::cout << "\npeak: most stage activations on a rank; of model: the same as a share of what\n"
               "the whole model keeps of a microbatch; hops: transfers between ranks per "
               "microbatch\n";
  for (const CompareRow& row : comparison.rows)
    if (!row.bytes_reason.empty())
      std::cout << "no bytes for " << row.name << ", V " << row.chunks << ": " << row.bytes_reason
                << "\n";
  if (comparison.absent.empty()) return;
  std::cout << "\nnot here:\n";
  for (const AbsentRow& row : comparison.absent)
    std::cout << "  " << row.name << ": " << row.reason << "\n";
}

Status compare(const CompareOptions& options) {
  CompareRequest request = options.request;
  HEADRACE_RETURN_IF_ERROR(check_names(request.names));
  HEADRACE_RETURN_IF_ERROR(take_config(options, request));
  HEADRACE_RETURN_IF_ERROR(take_times(options, request));
  const Comparison comparison = compare_schedules(request);
  if (options.json)
    print_json(request, comparison);
  else
    print_text(request, comparison);
  return Status::ok();
}

void add_options(CLI::App& command, CompareOptions& options) {
  const CLI::Range positive(std::int32_t{1}, std::int32_t{1 << 20});
  CompareRequest& request = options.request;
  command.add_option("CONFIG", options.config, "A configuration: its sizes, its model, its bytes");
  command.add_option("--set", options.overrides, "section.key=value, under the same rules")
      ->allow_extra_args(false);
  command.add_option("--ranks", request.ranks, "Ranks, P, without CONFIG")->check(positive);
  command.add_option("--microbatches", request.microbatches, "Microbatches, M, without CONFIG")
      ->check(positive);
  command
      .add_option("--chunks", request.chunks,
                  "Chunks, V, of the schedules that leave it open (default 2)")
      ->check(positive);
  CLI::Option* times =
      command.add_option("--times", options.times,
                         "Durations of a rank's share of the model (1/P), as in F=1,B=2,I=1,W=1; "
                         "with V chunks a stage takes 1/V of them");
  command
      .add_option("--summary", options.summary,
                  "Take the measured durations from a file of `train --summary`")
      ->excludes(times);
  command.add_option("--hop", request.hop, "Latency of a transfer between ranks (default 0)")
      ->check(number_up_to(kTimeMax));
  add_gradient_flag(command, request.gradient_after_input);
  command
      .add_option("--limit", request.limit,
                  "Most activations on a rank, in shares 1/P of a microbatch's: bounds auto, marks "
                  "the others")
      ->check(positive);
  add_search_options(command, request.search);
  command.add_option("--only", request.names, "Only these schedules, separated by commas")
      ->delimiter(',');
  add_json_flag(command, options.json);
}

}  // namespace

void add_schedule_compare(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command =
      group.add_subcommand("compare", "All schedules for a configuration or given times, sorted");
  command->footer(
      "Durations are per rank: a schedule with V chunks runs the same model in P V stages, so "
      "each\n"
      "of its stages takes 1/V of them. Schedules that do not exist here are listed with the\n"
      "reason.\n"
      "Examples:\n"
      "  headrace schedule compare --ranks 8 --microbatches 24 --times F=1,I=1,W=1 --hop 0.05\n"
      "  headrace schedule compare run.yaml --summary summary.json\n"
      "  headrace schedule compare --ranks 4 --microbatches 8 --only 1f1b,zb_h1,zbv --json");
  auto options = std::make_shared<CompareOptions>();
  add_options(*command, *options);
  command->callback([options, &chosen] { chosen.run = [options] { return compare(*options); }; });
}

}  // namespace headrace::cli
