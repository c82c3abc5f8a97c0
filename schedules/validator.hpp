// The validator: proves a program runnable before step 1, and sizes everything it needs.
//
// What it is for: exactly-once, dependencies across ranks, matched sends and receives, freedom from
// deadlock in the runtime's own model (below), and the peaks every pool is sized by. What it does
// not do: durations. Thread rule: free functions, safe on any thread.
//
// The runtime's model. Each rank takes its list in order. A slot for the activation of boundary s
// (between stages s and s+1) is taken when F(s,m) starts and given back when I or B of (s+1,m)
// ends, in a forward-only program when F(s+1,m) ends. A slot for the gradient of boundary s is
// taken when I or B of (s+1,m) starts and given back when I or B of (s,m) ends. A send never waits:
// the slot it fills was taken before its producer started. A receive waits for its send. On a link
// (from rank, to rank, kind) receives stand in the order of sends. COMMIT waits for the NORM of
// every rank. A pair starts when both of its actions could and ends both at once; a rank that runs
// them one after the other waits for less.
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace headrace::schedules {

// Peaks of one stage over a step, in microbatches, counted in the program order of its own rank
// alone. A stage that lives on two ranks (bidirectional placement) counts per rank and takes the
// larger. A forward-only program keeps a microbatch only during its F: stash and activation are 1.
struct StagePeaks {
  // Input activation. Producer on another rank: F .. I or B of this stage; how long before that F
  // it arrives depends on timing, the look-ahead of BoundarySlots covers it. Producer on this rank:
  // F of the stage below .. I or B of this stage, exact. Forward-only: until F of this stage ends.
  std::int32_t boundary = 0;
  std::int32_t stash = 0;          // F .. I or B: what the input gradient needs
  std::int32_t activation = 0;     // F .. B or W: stage activations held (papers: in flight)
  std::int32_t weight_inputs = 0;  // I .. W: (x, dy) of deferred weight gradients; a B counts as 1
};

// Slot capacities of the boundary between stage s and s+1, at least 2 each:
//  - activation = stages[s+1].boundary + 1 look-ahead, and more where the run that proves freedom
//    from deadlock stands still for want of one;
//  - gradient = the most that are held at once in the run that proves freedom from deadlock + 1
//    look-ahead. In that run each compute action takes one unit of time, transfers none, activation
//    slots are finite and gradient slots are not. Since it fits these slots, so does every other
//    timing. (A fixed 2 deadlocks breadth-first orders, which pile gradients up.)
// A pool per rank sized by the rank's peak would deadlock.
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

// Takes a compute-only or a lowered program; with or without the step's end. A compute-only one is
// judged as with_transfers would lower it, and refusals name its own actions. kConfig with the
// smallest cycle of waiting ranks, or the offending cells of the grid, with rank (row) and column,
// both from 0; the text ends with the rows around them, the bad cells marked as >1F0<.
[[nodiscard]] Result<ProgramFacts> validate(const Program& program);

// One thing wrong with a program.
struct Finding {
  Rank rank{-1};           // -1 = the whole program
  std::int32_t cell = -1;  // column in the list of `rank`, from 0; -1 = no cell of its own
  std::string text;
};

// What validate() would name, without its limit on length: the findings of the first check that
// fails, for later checks rely on earlier ones. After the first thousand one more gives the number
// of the rest. The members of a cycle come one by one. Empty means valid.
[[nodiscard]] std::vector<Finding> find_faults(const Program& program);

// What one microbatch of a stage holds in each lifetime.
struct StageBytes {
  std::int64_t boundary = 0;
  std::int64_t stash = 0;
  std::int64_t weight_inputs = 0;
};

// Peaks of one rank in bytes, each at its own moment; `total` is the most of all three at once.
struct LifetimeBytes {
  std::int64_t boundary = 0;
  std::int64_t stash = 0;
  std::int64_t weight_inputs = 0;
  std::int64_t total = 0;

  bool operator==(const LifetimeBytes&) const = default;
};

// Counted as StagePeaks counts, over the stages of each rank at the same moment. In a program with
// transfers a boundary that crosses ranks is held from its RECV_F on. A B holds weight inputs while
// it runs, as well as what it gives back at its end. @pre validate(program) is ok and `stages` has
// one entry per stage.
[[nodiscard]] std::vector<LifetimeBytes> peak_bytes(const Program& program,
                                                    std::span<const StageBytes> stages);

}  // namespace headrace::schedules
