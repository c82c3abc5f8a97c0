// A program: the ordered actions of every rank for one step, as data.
//
// What it is for: generators return one, passes take and return one, the validator, the simulator,
// the runtime and the trace read the same one. What it does not do: hold durations or buffers.
// Thread rule: values; distinct objects are independent.
//
// Invariants (the validator proves them):
//  1. actions.size() == ranks; stages == ranks * chunks (== ranks for bidirectional placement).
//  2. Every (stage, microbatch) has exactly one F and exactly one B or I+W, or F only
//  (forward_only).
//  3. An action of (stage, microbatch) stands in the list of rank_of(stage, microbatch).
#pragma once

#include "schedules/action.hpp"

#include <string>
#include <vector>

namespace headrace::schedules {

enum class Placement {
  kLoop,           // stage s on rank s mod P
  kVShape,         // c = s div P, q = s mod P: rank q if c is even, else P-1-q
  kBidirectional,  // stage s on rank s for microbatches below M/2, on rank P-1-s from M/2 on
  kTable,          // stage s on stage_ranks[s], V stages on every rank (a user's own file)
};

struct Program {
  std::string schedule;  // name it was made from, or the file
  std::int32_t ranks = 0;
  std::int32_t chunks = 0;  // stages per rank
  std::int32_t stages = 0;
  std::int32_t microbatches = 0;
  Placement placement = Placement::kLoop;
  std::vector<Rank> stage_ranks;  // [stage], kTable only
  bool forward_only = false;
  std::vector<std::vector<Action>> actions;  // [rank] in program order

  [[nodiscard]] Rank rank_of(StageIndex stage, MicrobatchIndex microbatch) const;
  bool operator==(const Program&) const = default;
};

}  // namespace headrace::schedules
