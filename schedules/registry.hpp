// The schedules by name: a pure function (P, M, V, options) -> compute-only program.
//
// What it is for: one word of YAML picks a schedule. What it does not do: lower, validate or
// simulate. Thread rule: free functions over constant data, safe on any thread.
#pragma once

#include "schedules/program.hpp"
#include "schedules/search.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headrace::schedules {

struct ScheduleSpec {
  std::string name = "1f1b";
  std::int32_t ranks = 1;         // P >= 1
  std::int32_t microbatches = 1;  // M >= 1
  std::int32_t chunks = 1;        // V >= 1
  // gpipe and looped_bfs: backward microbatches in descending order, as in arXiv 1811.06965's
  // figure and in PyTorch's LoopedBFS.
  bool descending_backward = false;
  // interleaved_1f1b and interleaved_zb: microbatches per group. 0 = PyTorch's rule, M div max(1, M
  // div P); else Megatron's: P <= group <= M, and M mod group is 0 or at least P.
  std::int32_t group = 0;
  SearchGoal search;  // auto only
};

// Facts of a schedule that hold for every P, M, V.
struct ScheduleInfo {
  std::string_view name;
  std::string_view summary;  // one sentence, with the paper
  std::string_view rule;     // what P, M, V must satisfy, for people
  Placement placement = Placement::kLoop;
  std::int32_t chunks = 0;        // V it needs; 0 = any V >= 1, 1 or 2 = exactly that
  bool even_chunks = false;       // V must be even
  bool splits_backward = false;   // I and W apart, at least in part
  bool takes_descending = false;  // ScheduleSpec::descending_backward
  bool takes_group = false;       // ScheduleSpec::group
  bool forward_only = false;      // computes no gradients
  // Every stage lives on two ranks, with parameters on both (bidirectional placement).
  [[nodiscard]] constexpr bool two_replicas() const {
    return placement == Placement::kBidirectional;
  }
};

[[nodiscard]] std::span<const ScheduleInfo> list_schedules();
// Null when no schedule has that name.
[[nodiscard]] const ScheduleInfo* find_schedule(std::string_view name);
// Compute-only actions (F, B, I, W). kConfig says which of P, M, V does not fit, why, and what
// would.
[[nodiscard]] Result<Program> make_program(const ScheduleSpec& spec);

}  // namespace headrace::schedules
