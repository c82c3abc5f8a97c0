// Programs as PyTorch's pipelining CSV: a row per rank, a cell per action.
//
// What it is for: exchange with torch.distributed.pipelining (`_load_csv`, `_dump_csv`), in its two
// forms, and schedules of the user. What it does not do: judge the program (validator.hpp); a file
// that is read may still be refused there. Thread rule: free functions, safe on any thread.
//
// What is read. Rows end with LF or CRLF, the last one may end with the file. Cells are separated
// by a comma and hold exactly one action, without blanks or quotes: 2F0, 2B0, 2I0, 2W0, a pair
// (2F3;5B1)OVERLAP_F_B or (2F3;5I1)OVERLAP_F_B, 2SEND_F0, 2RECV_F0, 2SEND_B0, 2RECV_B0. Empty cells
// are PyTorch's idle slots and are left out; so are 2UNSHARD, 2RESHARD, 2REDUCE_GRAD and
// 2WAIT_REDUCE_GRAD, which do nothing where no parameters are sharded, and 2WAIT_SEND_F0 and
// 2WAIT_SEND_B0, which must follow their send in the row. Rows may differ in length. A byte order
// mark, NUL, a quoted cell, a number beyond 2147483646 or with a leading zero, a row without
// actions and everything else is refused with its line and cell.
// [Note: letter eras] Until pytorch/pytorch#138886 (October 2024) PyTorch wrote B for the input
// gradient and BW for the full backward; since then I and B. A file with BW, or without I and with
// a W for every B, is of the old era and is read as I and B. A file that fits neither is refused.
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::schedules {

enum class CsvForm {
  kComputeOnly,   // F, B, I, W
  kComputeComms,  // and SEND_F, RECV_F, SEND_B, RECV_B
};

struct CsvOptions {
  std::string source = "schedule.csv";   // the name in messages; becomes Program::schedule
  CsvForm form = CsvForm::kComputeOnly;  // what the file must be; the other form is refused by name
  std::int32_t ranks = 0;                // rows the file must have; 0 = any
};

// Rank and cell count from 0, as the validator's findings do; -1 = the whole row or file.
struct CsvFault {
  std::int32_t rank = -1;
  std::int32_t cell = -1;
  std::string text;  // without the place
};

struct CsvReading {
  std::optional<Program> program;  // empty if there are faults
  std::vector<CsvFault> faults;    // by row and cell; at most 64
  std::vector<std::string> notes;  // what was read otherwise than written, a sentence each
  // [rank][action] the cell it stood in; a pair is one cell and two actions.
  std::vector<std::vector<std::int32_t>> cells;
};

// Ranks are the rows. Stages, microbatches and the placement are what the actions show: loop if it
// fits, else V shape, bidirectional, or a table of whole stages, as many on each rank.
[[nodiscard]] CsvReading read_csv(std::string_view text, const CsvOptions& options);

// The program, or kConfig with the first fault as `source:line:cell: …`, both from 1.
[[nodiscard]] Result<Program> parse_csv(std::string_view text, const CsvOptions& options);

// In the current letters, rows ended by LF. Compute-only leaves transfers and the step's end out;
// compute-comms adds the transfers if the program has none, and leaves the step's end out.
// Reading what was written gives the same program: parse_csv(write_csv(p, form)) == p, but for the
// name, and for the placement where several mean the same (one rank, one chunk: loop).
[[nodiscard]] std::string write_csv(const Program& program, CsvForm form);

// Compute-comms with a WAIT_SEND for every send at the end of its row, where each send has long
// ended: PyTorch 2.15 wants one for each, earlier versions know none. Reading leaves them out.
[[nodiscard]] std::string write_csv_with_waits(const Program& program);

// Every action of the program as it is, the step's end included: for messages and tests.
[[nodiscard]] std::string to_csv(const Program& program);

}  // namespace headrace::schedules
