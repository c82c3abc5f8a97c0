// The simulator: makespan, bubble, idle causes and critical path of a program for given durations.
//
// What it is for: predict a step before it runs, also for more ranks than cores, and say what it
// waits for. Three communication models, see Communication; slots are not modelled. With fewer
// cores than ranks, those that compute at the same moment share the cores equally (processor
// sharing), as equal threads do under the operating system's fair scheduler.
// What it does not do: decide whether a program is valid. Transfers in a lowered program are read
// over: each model derives them from the compute actions.
// Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/program.hpp"
#include "schedules/stage_cost.hpp"

#include <cstdint>
#include <vector>

namespace headrace::schedules {

enum class Communication {
  kOverlap,  // a consumer elsewhere may start `hop` after its input left; nobody is occupied
  kSync,     // in addition each send occupies the producer's rank, one after the other
  // Both sides are occupied. What lies between two compute actions (sends of the first, receives of
  // the second) is posted together; each transfer takes its time from the moment both have posted.
  kRendezvous,
};

// A directed link between two ranks, in place of `hop`. Under kOverlap it moves one message after
// the other, `seconds_per_byte` each; latencies of successive messages overlap.
struct LinkCost {
  Rank from{0};
  Rank to{0};
  double latency = 0;
  double seconds_per_byte = 0;
};

struct SimulationOptions {
  std::vector<StageCost> stages;  // [stage]; one entry stands for all; empty = 1, 1, 1
  double hop = 0;                 // latency of a transfer between ranks
  std::int32_t cores = 0;  // ranks share this many cores (processor sharing); 0 = one core each
  // [rank] time of NORM + OPTIMIZER, begun when the last rank has computed: a commit needs every
  // norm. It counts in busy, makespan and both bubbles, and is not in the timeline. Empty = none.
  std::vector<double> step_end;
  Communication communication = Communication::kOverlap;  // shared cores know kOverlap only
  std::vector<LinkCost> links;         // pairs of ranks that are not listed use `hop`
  std::vector<double> boundary_bytes;  // [boundary after stage s], both ways; empty = 0
  double pair = 0;                     // duration of an overlap pair; 0 = the sum of its actions
  // Both outputs of a pair leave at its end; else F's after F's time, the gradient after F + I.
  // This and the next matter under kOverlap: the other models transfer after the block.
  bool pair_leaves_at_end = true;
  bool gradient_after_input = false;  // a full B outside a pair releases its gradient after I
};

// Both actions of a pair have the start and the end of the pair.
struct SimulatedAction {
  Action action;
  double start = 0;
  double end = 0;
};

// What a rank waited for; the sum is its idle time.
struct IdleCauses {
  double warm_up = 0;     // before its first action
  double cool_down = 0;   // after its last, up to the makespan
  double dependency = 0;  // between: a producer was still computing, or (rendezvous) not there yet
  double transfer = 0;    // between: an input was in flight, or the rank was occupied by a transfer
};

struct CriticalStep {
  Rank rank;
  Action action;  // kOptimizer for the step's end
  double start = 0;
  double end = 0;
};

struct Simulation {
  // Only under kRendezvous: the valid program hangs, makespan is infinite, and the rest describes
  // what has run until then.
  bool is_deadlocked = false;
  double makespan = 0;
  std::vector<double> busy;             // [rank] time its actions need
  std::vector<double> idle;             // [rank] makespan - busy - oversubscribed
  std::vector<double> oversubscribed;   // [rank] ready but without a core
  std::vector<IdleCauses> idle_causes;  // [rank] idle is their sum in the order of the members
  double bubble_global = 0;             // 1 - sum busy / (P * makespan)
  // (cost - work) / cost: cost = max over ranks of last end - first start, work = mean of busy.
  double bubble_span = 0;
  std::vector<std::vector<SimulatedAction>> timeline;  // [rank], compute actions only
  // The chain of actions that determines the makespan, from time 0 on. The end of one and the start
  // of the next differ by the transfer between them. Empty where cores are shared: a share depends
  // on what everybody does.
  std::vector<CriticalStep> critical_path;
};

// @pre validate(program) succeeded.
[[nodiscard]] Simulation simulate(const Program& program, const SimulationOptions& options);

}  // namespace headrace::schedules
