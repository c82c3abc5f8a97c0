// Passes: pure functions from a program to a program.
//
// What it is for: turn the compute-only program of a generator into what a rank executes.
// What it does not do: judge (validator.hpp). Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/program.hpp"

namespace headrace::schedules {

// Forgets that a forward and the backward after it overlap: the order stays, the pair becomes two
// actions. For ranks that do one thing at a time.
[[nodiscard]] Program without_pairs(Program program);

// Takes SEND and RECV out again, the inverse of with_transfers: what runs inside one process hands
// slots over as part of F, B and I.
[[nodiscard]] Program without_transfers(Program program);

// [Note: one way to add] Every weight gradient is added in ascending microbatch order per stage.
// Where a program's backward is not ascending, B becomes I and its W is deferred to the first place
// where all lower microbatches of that stage have had theirs; what waits is kept as its inputs (x,
// dy).
[[nodiscard]] Program with_ascending_weights(Program program);

struct StepEnd {
  bool tied = false;  // embedding on stage 0 and head on the last stage share one matrix
};

// Adds the step's end to every rank: REDUCE_GRAD per stage (ascending); TIED_SEND then TIED_RECV on
// the ranks that hold one of the two tied ends (none where a rank holds both); NORM, COMMIT,
// OPTIMIZER. Under bidirectional placement both ranks of a stage get its REDUCE_GRAD, which folds
// the other replica's blocks too; the two end ranks then hold both tied ends whole. A forward_only
// program is returned unchanged.
[[nodiscard]] Program with_step_end(Program program, const StepEnd& options);

// Adds SEND_F/RECV_F/SEND_B/RECV_B where neighbouring stages are on different ranks: a receive
// directly before its consumer, a send directly after its producer; around a pair both receives,
// then the pair, then both sends. A lowered program is returned unchanged.
[[nodiscard]] Program with_transfers(Program program);

}  // namespace headrace::schedules
