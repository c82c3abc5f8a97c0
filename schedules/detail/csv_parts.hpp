// The two halves of the CSV reader: cells to actions, actions to a program.
//
// What it is for: csv.cpp joins them. What they do not do: know a file's name. Thread rule: free
// functions, safe on any thread.
#pragma once

#include "schedules/csv.hpp"

namespace headrace::schedules::detail {

// An action as it stands in its cell, before the letter era is known.
struct WrittenAction {
  Action action;
  std::int32_t cell = 0;
  bool is_bw = false;  // BW of the old letters; action.kind is kBackward
};

struct WrittenGrid {
  std::vector<std::vector<WrittenAction>> rows;
  std::int64_t idle_cells = 0;
  std::int64_t sharding_cells = 0;  // UNSHARD, RESHARD, REDUCE_GRAD, WAIT_REDUCE_GRAD
  std::string first_sharding_cell;
  std::int64_t send_wait_cells = 0;  // WAIT_SEND_F, WAIT_SEND_B
  std::string first_send_wait_cell;
};

// The text of a cell for a message: printable, cut at 40 bytes, in quotes.
[[nodiscard]] std::string quoted_cell(std::string_view text);
// PyTorch's text of the list's action at `*index`, which moves behind what was printed: a pair that
// stands complete is two actions.
[[nodiscard]] std::string cell_text(const std::vector<Action>& list, std::size_t* index);

// Fills the grid; faults are added by row and cell.
void read_grid(std::string_view text, WrittenGrid* grid, std::vector<CsvFault>* faults);

// Era, form, shape and placement. Adds to `reading`.
void understand_grid(WrittenGrid grid, const CsvOptions& options, CsvReading* reading);

}  // namespace headrace::schedules::detail
