#include "schedules/csv.hpp"

#include "schedules/detail/csv_parts.hpp"
#include "schedules/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

namespace headrace::schedules {
namespace {

std::string place_text(const std::string& source, const CsvFault& fault) {
  if (fault.rank < 0) return source;
  std::string text = source + ":" + std::to_string(fault.rank + 1);
  if (fault.cell >= 0) text += ":" + std::to_string(fault.cell + 1);
  text += ": rank " + std::to_string(fault.rank);
  if (fault.cell >= 0) text += ", cell " + std::to_string(fault.cell);
  return text;
}

bool has_transfers(const Program& program) {
  for (const std::vector<Action>& list : program.actions)
    for (const Action& action : list)
      if (is_transfer(action.kind)) return true;
  return false;
}

// A pair is one block: what its halves receive stands before it, what they send behind it, wherever
// the lowering put the transfers.
std::vector<Action> with_whole_pairs(const std::vector<Action>& list) {
  std::vector<Action> out;
  out.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::size_t end = i + 1;
    while (list[i].overlaps_next && end < list.size() && is_transfer(list[end].kind)) ++end;
    if (end == i + 1 || end == list.size()) {
      out.push_back(list[i]);
      continue;
    }
    const auto is_receive = [](const Action& action) {
      return action.kind == ActionKind::kRecvForward || action.kind == ActionKind::kRecvBackward;
    };
    const auto first = list.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto last = list.begin() + static_cast<std::ptrdiff_t>(end);
    std::copy_if(first, last, std::back_inserter(out), is_receive);
    out.push_back(list[i]);
    out.push_back(*last);
    std::copy_if(first, last, std::back_inserter(out),
                 [&](const Action& action) { return !is_receive(action); });
    i = end;
  }
  return out;
}

}  // namespace

CsvReading read_csv(std::string_view text, const CsvOptions& options) {
  CsvReading reading;
  detail::WrittenGrid grid;
  detail::read_grid(text, &grid, &reading.faults);
  if (reading.faults.empty()) detail::understand_grid(std::move(grid), options, &reading);
  return reading;
}

Result<Program> parse_csv(std::string_view text, const CsvOptions& options) {
  CsvReading reading = read_csv(text, options);
  if (reading.program) return *std::move(reading.program);
  const CsvFault& fault = reading.faults.front();
  return Status{StatusCode::kConfig, place_text(options.source, fault) + ": " + fault.text};
}

namespace {

// What write_csv shows of a program.
Program shown_in(const Program& program, CsvForm form) {
  const auto is_left_out = [&](const Action& action) {
    return is_step_end(action.kind) || (form == CsvForm::kComputeOnly && is_transfer(action.kind));
  };
  Program shown =
      form == CsvForm::kComputeComms && !has_transfers(program) ? with_transfers(program) : program;
  for (std::vector<Action>& list : shown.actions) {
    list.erase(std::remove_if(list.begin(), list.end(), is_left_out), list.end());
    list = with_whole_pairs(list);
  }
  return shown;
}

void append_row(const std::vector<Action>& list, std::string* out) {
  for (std::size_t i = 0; i < list.size();) {
    if (i > 0) *out += ',';
    *out += detail::cell_text(list, &i);
  }
}

// `,2WAIT_SEND_F0` for each send of the row.
void append_waits(const std::vector<Action>& list, std::string* out) {
  for (const Action& action : list) {
    const bool is_forward = action.kind == ActionKind::kSendForward;
    if (!is_forward && action.kind != ActionKind::kSendBackward) continue;
    *out += ',' + std::to_string(action.stage.value) +
            (is_forward ? "WAIT_SEND_F" : "WAIT_SEND_B") + std::to_string(action.microbatch.value);
  }
}

}  // namespace

std::string write_csv(const Program& program, CsvForm form) {
  return to_csv(shown_in(program, form));
}

std::string write_csv_with_waits(const Program& program) {
  std::string out;
  for (const std::vector<Action>& list : shown_in(program, CsvForm::kComputeComms).actions) {
    append_row(list, &out);
    append_waits(list, &out);
    out += '\n';
  }
  return out;
}

std::string to_csv(const Program& program) {
  std::string out;
  for (const std::vector<Action>& list : program.actions) {
    append_row(list, &out);
    out += '\n';
  }
  return out;
}

}  // namespace headrace::schedules
