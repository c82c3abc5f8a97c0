// The validator: proves a program runnable before step 1, and sizes everything it needs.
//
// What it is for: exactly-once, dependencies across ranks, matched sends and receives, freedom from
// deadlock in the runtime's own model (program order per rank, finite slots per boundary and kind,
// links in order, rendezvous sends), and the peaks every pool is sized by. What it does not do:
// durations. Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <vector>

namespace headrace::schedules {

// Peaks of one stage over a step, in microbatches, from the program alone. A stage that lives on
// two ranks (bidirectional placement) counts per rank and takes the larger.
struct StagePeaks {
  std::int32_t boundary =
      0;                   // input activation: from the producer's F (its slot is taken) to I here
  std::int32_t stash = 0;  // F .. I: what the input gradient needs
  std::int32_t activation = 0;  // F .. B or W: stage activations held (what papers call in flight)
  std::int32_t weight_inputs =
      0;  // I .. W: (x, dy) kept for deferred weight gradients; a B counts as 1
};

// Slot capacities of the boundary between stage s and s+1. Rule (DESIGN 4.1): peak of that stage in
// the program + 1 look-ahead; at least 2. A pool per rank sized by the rank's peak deadlocks.
struct BoundarySlots {
  std::int32_t activation = 2;
  std::int32_t gradient = 2;
};

struct ProgramFacts {
  std::vector<StagePeaks> stages;              // [stage]
  std::vector<BoundarySlots> boundaries;       // [stage s]: between s and s+1, size stages-1
  std::vector<std::int32_t> peak_activations;  // [rank], sum over its stages at the same moment
  std::int64_t action_count = 0;
};

// Takes a compute-only or a lowered program (transfers are added when there are none).
// kConfig with the minimal cycle, or the offending cells of the grid, with rank (row) and column.
[[nodiscard]] Result<ProgramFacts> validate(const Program& program);

}  // namespace headrace::schedules
