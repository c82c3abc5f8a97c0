#include "tests/fuzz/entries.hpp"

#include "runtime/base/check.hpp"
#include "runtime/config/layout.hpp"
#include "schedules/csv.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::fuzz {
namespace {

using schedules::CsvForm;
using schedules::CsvReading;
using schedules::Program;

std::int64_t forward_count(const Program& program) {
  std::int64_t count = 0;
  for (const auto& list : program.actions)
    count += std::count_if(list.begin(), list.end(), [](const schedules::Action& action) {
      return action.kind == schedules::ActionKind::kForward;
    });
  return count;
}

void check_refusal(const CsvReading& reading, std::string_view text) {
  HEADRACE_CHECK(!reading.faults.empty(), "neither a program nor a fault");
  const auto rows = std::count(text.begin(), text.end(), '\n') + 1;
  for (const schedules::CsvFault& fault : reading.faults) {
    HEADRACE_CHECK(!fault.text.empty(), "a fault without a text");
    HEADRACE_CHECK(fault.rank >= -1 && fault.rank < rows, fault.rank, rows);
    HEADRACE_CHECK(fault.rank >= 0 || fault.cell < 0, fault.rank, fault.cell);
  }
}

void check_program(const CsvReading& reading, std::string_view text, CsvForm form) {
  const Program& program = *reading.program;
  HEADRACE_CHECK(reading.faults.empty(), "a program and a fault");
  HEADRACE_CHECK(reading.cells.size() == program.actions.size(), "cells of every row");
  for (std::size_t r = 0; r < reading.cells.size(); ++r)
    HEADRACE_CHECK(reading.cells[r].size() == program.actions[r].size(), "a cell per action");

  const std::string written = write_csv(program, form);
  const CsvReading again = schedules::read_csv(written, {"schedule.csv", form, program.ranks});
  HEADRACE_CHECK(again.program.has_value(), written);
  HEADRACE_CHECK(*again.program == program, written);
  HEADRACE_CHECK(again.notes.empty(), written);
  const bool is_plain =
      reading.notes.empty() && text.find('\r') == std::string_view::npos && text.back() == '\n';
  HEADRACE_CHECK(!is_plain || written == text, written);

  // Nothing here may crash; what is valid has every forward once and can be timed.
  if (!validate(program).is_ok()) return;
  HEADRACE_CHECK(forward_count(program) == std::int64_t{program.stages} * program.microbatches,
                 written);
  HEADRACE_CHECK(simulate(program, {}).makespan > 0, written);
}

std::string letters(const std::vector<config::StageConfig>& stages) {
  std::string text;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0) text += '|';
    for (const config::LayerRun& run : stages[s].layers) {
      if (run.kind == "embedding") text += 'E';
      if (run.kind == "block") text.append(static_cast<std::size_t>(run.count), 't');
      if (run.kind == "head") text += 'L';
    }
  }
  return text;
}

}  // namespace

bool try_csv(std::string_view text) {
  bool is_accepted = false;
  for (const CsvForm form : {CsvForm::kComputeOnly, CsvForm::kComputeComms}) {
    const CsvReading reading = schedules::read_csv(text, {"schedule.csv", form, 0});
    if (reading.program) {
      check_program(reading, text, form);
      is_accepted = true;
    } else {
      check_refusal(reading, text);
    }
  }
  return is_accepted;
}

bool try_layout(std::string_view text) {
  const config::LayoutParse parse = config::parse_layout(text, {1, 1, 0});
  if (parse.problem) {
    HEADRACE_CHECK(parse.stages.empty(), "stages and a problem");
    HEADRACE_CHECK(!parse.problem->message.empty(), "a problem without a text");
    HEADRACE_CHECK(parse.problem->offset <= text.size(), parse.problem->offset, text.size());
    return false;
  }
  for (const config::StageConfig& stage : parse.stages)
    HEADRACE_CHECK(!stage.layers.empty(), "an empty stage");
  HEADRACE_CHECK(parse.stages.front().layers.front().kind == "embedding", "embedding first");
  HEADRACE_CHECK(parse.stages.back().layers.back().kind == "head", "head last");
  const std::string written = letters(parse.stages);
  HEADRACE_CHECK(std::count(written.begin(), written.end(), 'E') == 1, written);
  HEADRACE_CHECK(std::count(written.begin(), written.end(), 'L') == 1, written);
  const config::LayoutParse again = config::parse_layout(written, {1, 1, 0});
  HEADRACE_CHECK(!again.problem && again.stages == parse.stages, written);
  return true;
}

}  // namespace headrace::fuzz
