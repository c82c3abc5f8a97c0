#include "tools/cli/schedule_request.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace headrace::cli {
namespace {

bool is_schedule(const std::string& name) { return schedules::find_schedule(name) != nullptr; }

bool is_regular_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

Status refuse_sizes(const ScheduleRequest& request, const schedules::Program& program) {
  const auto differs = [&](const char* option, std::int32_t asked, std::int32_t found) {
    return Status(StatusCode::kUsage, request.source + ": the file has " + option + " " +
                                          std::to_string(found) + ", asked for was " +
                                          std::to_string(asked) + "; leave --" + option +
                                          " out, or take another file");
  };
  if (request.spec.ranks != 0 && request.spec.ranks != program.ranks)
    return differs("ranks", request.spec.ranks, program.ranks);
  if (request.spec.microbatches != 0 && request.spec.microbatches != program.microbatches)
    return differs("microbatches", request.spec.microbatches, program.microbatches);
  if (request.chunks != 0 && request.chunks != program.chunks)
    return differs("chunks", request.chunks, program.chunks);
  return Status::ok();
}

Result<LoadedSchedule> read_schedule(const ScheduleRequest& request) {
  const Result<std::string> text = read_text(request.source);
  if (!text) return text.status();
  schedules::CsvOptions options;
  options.source = request.source;
  options.form = form_of(*text);
  LoadedSchedule loaded;
  schedules::CsvReading reading = schedules::read_csv(*text, options);
  if (!reading.program) return schedules::parse_csv(*text, options).status();
  loaded.program = *std::move(reading.program);
  loaded.notes = std::move(reading.notes);
  HEADRACE_RETURN_IF_ERROR(refuse_sizes(request, loaded.program));
  return loaded;
}

Result<LoadedSchedule> generate_schedule(const ScheduleRequest& request) {
  schedules::ScheduleSpec spec = request.spec;
  spec.name = request.source;
  if (is_schedule(spec.name) && (spec.ranks == 0 || spec.microbatches == 0))
    return Status(StatusCode::kUsage,
                  "schedule " + spec.name + " needs --ranks P and --microbatches M");
  spec.chunks = request.chunks != 0 ? request.chunks : fewest_chunks(spec.name);
  if (spec.name == "auto") {
    const Result<ActionTimes> times = parse_times(request.times);
    if (!times) return times.status();
    spec.search.stages = {{times->forward, times->backward_input, times->backward_weight}};
    spec.search.hop = request.hop;
  }
  Result<schedules::Program> program = schedules::make_program(spec);
  if (!program.is_ok()) return program.status();
  return LoadedSchedule{*std::move(program), {}, {}};
}

schedules::Communication communication_of(const std::string& word) {
  if (word == "sync") return schedules::Communication::kSync;
  return word == "rendezvous" ? schedules::Communication::kRendezvous
                              : schedules::Communication::kOverlap;
}

}  // namespace

void add_source_options(CLI::App& command, ScheduleRequest& request, const std::string& word) {
  command
      .add_option(word, request.source,
                  "A name from `headrace schedule list`, or a CSV file (a file needs no sizes)")
      ->required();
  const CLI::Range positive(std::int32_t{1}, std::int32_t{1 << 20});
  request.spec.ranks = 0;
  request.spec.microbatches = 0;
  command.add_option("--ranks", request.spec.ranks, "Ranks of the pipeline, P")->check(positive);
  command.add_option("--microbatches", request.spec.microbatches, "Microbatches per step, M")
      ->check(positive);
  command
      .add_option("--chunks", request.chunks,
                  "Stages on each rank, V (default: the fewest the schedule takes)")
      ->check(positive);
  command
      .add_option_function<std::string>(
          "--backward",
          [&request](const std::string& order) {
            request.spec.descending_backward = order == "descending";
          },
          "gpipe, looped_bfs: order of the backward microbatches, ascending (default) or "
          "descending")
      ->check(CLI::IsMember({"ascending", "descending"}));
  command
      .add_option("--group", request.spec.group,
                  "interleaved_1f1b, interleaved_zb: microbatches per group (default: PyTorch's "
                  "rule)")
      ->check(positive);
  command
      .add_option("--limit", request.spec.search.activation_limit,
                  "auto: most stage activations a rank may hold (default 2 P V)")
      ->check(positive);
  add_search_options(command, request.spec.search);
}

void add_search_options(CLI::App& command, schedules::SearchGoal& goal) {
  command
      .add_option("--effort", goal.effort,
                  "auto: how many times as many orders it prices (default 1)")
      ->check(CLI::Range(1, 1000));
  command
      .add_option_function<std::string>(
          "--measure",
          [&goal](const std::string& word) {
            goal.measure = word == "span" ? schedules::SearchMeasure::kSpan
                                          : schedules::SearchMeasure::kGlobal;
          },
          "auto: what it shortens, global (default): the makespan; span: the longest time from a "
          "rank's first action to its last, as in the zero-bubble papers")
      ->check(CLI::IsMember({"global", "span"}));
  command
      .add_option("--released-at-input", goal.released_at_input,
                  "auto: share of an activation that I frees, W frees the rest (default 0)")
      ->check(number_up_to(1));
}

CLI::Validator number_up_to(double most) {
  std::ostringstream range;
  range << "0 to " << most;
  const auto check = [most, range = range.str()](const std::string& text) {
    double value = 0;
    const bool fits = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= most;
    return fits ? std::string{} : "'" + text + "' is no number from " + range;
  };
  return CLI::Validator(check, "in [" + range.str() + "]", "number");
}

void add_time_options(CLI::App& command, ScheduleRequest& request) {
  command.add_option("--times", request.times,
                     "Durations per stage chunk, as in F=1,B=2,I=1,W=1 (the default); B alone is "
                     "halved into I and W");
  command.add_option("--hop", request.hop, "Latency of a transfer between ranks (default 0)")
      ->check(number_up_to(kTimeMax));
  command
      .add_option("--communication", request.communication,
                  "overlap (default): nobody is occupied by a transfer; sync: the sender is; "
                  "rendezvous: both are")
      ->check(CLI::IsMember({"overlap", "sync", "rendezvous"}));
  command
      .add_option("--pair", request.pair,
                  "Duration of an overlap pair, F and B as one block (default F + B)")
      ->check(number_up_to(kTimeMax));
  add_gradient_flag(command, request.gradient_after_input);
}

void add_gradient_flag(CLI::App& command, bool& gradient_after_input) {
  command.add_flag("--gradient-after-input", gradient_after_input,
                   "A full B hands its gradient on after I, as this runtime does, not at its end, "
                   "as the papers count");
}

void add_json_flag(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "Print the result as JSON");
}

void add_transports_flag(CLI::App& command, bool& transports) {
  command.add_flag("!--no-transports", transports,
                   "Judge the runtime's own transport alone: spares time on large schedules");
}

bool names_a_file(const std::string& source) {
  if (is_schedule(source)) return false;
  const bool ends_in_csv = source.size() > 4 && source.substr(source.size() - 4) == ".csv";
  return ends_in_csv || is_regular_file(source);
}

Result<std::string> read_text(const std::string& path) {
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kUsage, path + ": cannot be read: " + why);
  };
  if (!std::filesystem::exists(path)) return refuse("there is no such file");
  if (std::filesystem::is_directory(path)) return refuse("it is a folder");
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (!file.is_open() || file.bad()) return refuse(std::strerror(errno));
  return text.str();
}

schedules::CsvForm form_of(const std::string& text) {
  const bool transfers =
      text.find("SEND_") != std::string::npos || text.find("RECV_") != std::string::npos;
  return transfers ? schedules::CsvForm::kComputeComms : schedules::CsvForm::kComputeOnly;
}

bool takes_chunks(const std::string& name, std::int32_t chunks) {
  const schedules::ScheduleInfo* info = schedules::find_schedule(name);
  if (info == nullptr) return false;
  if (info->even_chunks && chunks % 2 != 0) return false;
  return info->chunks == 0 || info->chunks == chunks;
}

std::int32_t fewest_chunks(const std::string& name) {
  return !takes_chunks(name, 1) && takes_chunks(name, 2) ? 2 : 1;
}

Result<LoadedSchedule> load_schedule(const ScheduleRequest& request) {
  Result<LoadedSchedule> loaded = request.must_be_file || names_a_file(request.source)
                                      ? read_schedule(request)
                                      : generate_schedule(request);
  if (!loaded.is_ok()) return loaded;
  Result<schedules::ProgramFacts> facts = schedules::validate(loaded->program);
  if (!facts.is_ok()) return facts.status();
  loaded->facts = *std::move(facts);
  return loaded;
}

Result<SimulatedSchedule> simulate_schedule(const ScheduleRequest& request) {
  const Result<ActionTimes> times = parse_times(request.times);
  if (!times) return times.status();
  Result<LoadedSchedule> loaded = load_schedule(request);
  if (!loaded.is_ok()) return loaded.status();
  const Result<schedules::StageCost> cost = stage_cost(loaded->program, *times);
  if (!cost) return cost.status();
  schedules::SimulationOptions options;
  options.stages = {*cost};
  options.hop = request.hop;
  options.pair = request.pair;
  options.gradient_after_input = request.gradient_after_input;
  options.communication = communication_of(request.communication);
  schedules::Simulation simulation = schedules::simulate(loaded->program, options);
  if (simulation.is_deadlocked)
    return Status(StatusCode::kConfig, "schedule " + loaded->program.schedule +
                                           " hangs when every transfer waits for both sides; use "
                                           "--communication overlap or sync");
  return SimulatedSchedule{*std::move(loaded), *times, std::move(simulation)};
}

Json sizes_json(const schedules::Program& program) {
  return {{"schedule", program.schedule},
          {"ranks", program.ranks},
          {"chunks", program.chunks},
          {"stages", program.stages},
          {"microbatches", program.microbatches}};
}

std::string sizes_text(const schedules::Program& program) {
  const auto count = [](std::int32_t n, const std::string& noun, const std::string& plural) {
    return std::to_string(n) + " " + noun + (n == 1 ? "" : plural);
  };
  const std::string name = std::filesystem::path(program.schedule).filename().string();
  return name + ": " + count(program.ranks, "rank", "s") + " x " +
         count(program.chunks, "chunk", "s") + ", " +
         count(program.microbatches, "microbatch", "es");
}

std::string durations_text(const ScheduleRequest& request, const ActionTimes& times) {
  std::string text = "F " + number_text(times.forward) + ", B " + number_text(times.backward) +
                     ", I " + number_text(times.backward_input) + ", W " +
                     number_text(times.backward_weight) + ", hop " + number_text(request.hop);
  if (request.pair > 0) text += ", pair " + number_text(request.pair);
  if (request.gradient_after_input) text += ", gradients leave after I";
  if (request.communication != "overlap") text += ", " + request.communication + " transfers";
  return text;
}

std::string number_text(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.6g", value);
  return buffer;
}

std::string percent_text(double share) {
  char buffer[40];
  // A share of -1e-17 is a zero that rounding touched.
  std::snprintf(buffer, sizeof buffer, "%.1f %%", std::abs(share) < 5e-4 ? 0.0 : 100 * share);
  return buffer;
}

Status write_text(const std::string& path, const std::string& text) {
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kUsage, path + ": cannot be written: " + why);
  };
  if (std::filesystem::is_directory(path)) return refuse("it is a folder");
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return refuse(std::strerror(errno));
  file << text;
  file.close();
  if (!file) return refuse(std::strerror(errno));
  return Status::ok();
}

}  // namespace headrace::cli
