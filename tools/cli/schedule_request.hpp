// What the schedule commands are asked for: a schedule by name or file, sizes and durations.
//
// What it is for: one set of options, one way to turn them into a checked program. What it does not
// do: print. Thread rule: values; free functions touch files only where they say so.
#pragma once

#include "runtime/base/status.hpp"
#include "schedules/csv.hpp"
#include "schedules/registry.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::cli {

using Json = nlohmann::ordered_json;

// The longest duration or latency an option takes: sums over the largest programs stay finite.
constexpr double kTimeMax = 1e12;

// Durations of one stage's actions, as given. B is a full backward.
struct ActionTimes {
  double forward = 1;
  double backward = 2;
  double backward_input = 1;
  double backward_weight = 1;
  // B is not I + W: it counts only where a program has either B, or I and W, but not both.
  bool backward_differs = false;
  std::string note;  // what was assumed, a sentence; empty if nothing
};

// From `F=1,B=2,I=1,W=1`, each at most once. F is 1 unless given. B alone is halved into I and W; I
// and W make B; a single one of I and W needs B. Empty text: 1, 2, 1, 1. kUsage with the text.
[[nodiscard]] Result<ActionTimes> parse_times(const std::string& text);
// The cost of a stage of this program. kConfig if both B and the halves occur and B is not I + W.
[[nodiscard]] Result<schedules::StageCost> stage_cost(const schedules::Program& program,
                                                      const ActionTimes& times);

struct ScheduleRequest {
  std::string source;  // NAME or FILE
  schedules::ScheduleSpec spec;
  std::int32_t chunks = 0;  // 0 = the fewest the schedule takes
  std::string times;
  double hop = 0;
  std::string communication = "overlap";
  double pair = 0;  // duration of an overlap pair; 0 = F + B
  bool gradient_after_input = false;
  bool transports = true;  // judge every way of moving messages
  bool json = false;
  bool must_be_file = false;  // never a name
};

// NAME, --ranks, --microbatches, --chunks and the options of single schedules.
void add_source_options(CLI::App& command, ScheduleRequest& request, const std::string& word);
// --effort, --measure and --released-at-input of auto.
void add_search_options(CLI::App& command, schedules::SearchGoal& goal);
// --times, --hop, --communication, --pair, --gradient-after-input.
void add_time_options(CLI::App& command, ScheduleRequest& request);
// Accepts 0 to `most`; unlike CLI::Range it refuses what is no number.
[[nodiscard]] CLI::Validator number_up_to(double most);
void add_json_flag(CLI::App& command, bool& json);
// --gradient-after-input.
void add_gradient_flag(CLI::App& command, bool& gradient_after_input);
// --no-transports.
void add_transports_flag(CLI::App& command, bool& transports);

// A schedule's name is no file; else an existing file, or anything that ends in `.csv`, is.
[[nodiscard]] bool names_a_file(const std::string& source);
// The whole file. kUsage if it cannot be read.
[[nodiscard]] Result<std::string> read_text(const std::string& path);
// Compute-comms if the text has a transfer, else compute-only.
[[nodiscard]] schedules::CsvForm form_of(const std::string& text);
// The fewest chunks the schedule takes; 1 if it is unknown.
[[nodiscard]] std::int32_t fewest_chunks(const std::string& name);
// Whether the schedule exists with this V.
[[nodiscard]] bool takes_chunks(const std::string& name, std::int32_t chunks);

struct LoadedSchedule {
  schedules::Program program;
  schedules::ProgramFacts facts;
  std::vector<std::string> notes;  // of the reader
};

// Generates or reads, and validates. Reads a file.
[[nodiscard]] Result<LoadedSchedule> load_schedule(const ScheduleRequest& request);

struct SimulatedSchedule {
  LoadedSchedule loaded;
  ActionTimes times;
  schedules::Simulation simulation;
};

// load_schedule, then the simulation with the request's times. kConfig if it hangs under
// rendezvous.
[[nodiscard]] Result<SimulatedSchedule> simulate_schedule(const ScheduleRequest& request);

// schedule, ranks, chunks, stages, microbatches.
[[nodiscard]] Json sizes_json(const schedules::Program& program);
// `gpipe: 4 ranks x 1 chunk, 8 microbatches`.
[[nodiscard]] std::string sizes_text(const schedules::Program& program);
// `F 1, B 2, I 1, W 1, hop 0`, and what differs from the default.
[[nodiscard]] std::string durations_text(const ScheduleRequest& request, const ActionTimes& times);
// Up to six significant digits, no trailing zeros.
[[nodiscard]] std::string number_text(double value);
// `17.9 %`.
[[nodiscard]] std::string percent_text(double share);
// Replaces the file. kUsage if it cannot be written whole.
[[nodiscard]] Status write_text(const std::string& path, const std::string& text);

}  // namespace headrace::cli
