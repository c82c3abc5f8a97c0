// The simulator: makespan, bubble and idle causes of a program for given durations.
//
// What it is for: predict a step before it runs, also for more ranks than cores. Communication is
// the overlap model: a consumer on another rank may start `hop` after the producer's end and nobody
// is occupied; slots are not modelled, actions other than compute take no time. With fewer cores
// than ranks, those that compute at the same moment share the cores equally (processor sharing), as
// equal threads do under the operating system's fair scheduler.
// What it does not do: decide whether a program is valid.
// Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/program.hpp"
#include "schedules/stage_cost.hpp"

#include <cstdint>
#include <vector>

namespace headrace::schedules {

struct SimulationOptions {
  std::vector<StageCost> stages;  // [stage]; one entry stands for all; empty = 1, 1, 1
  double hop = 0;                 // latency of a transfer between ranks
  std::int32_t cores = 0;  // ranks share this many cores (processor sharing); 0 = one core each
  // [rank] time of NORM + OPTIMIZER, begun when the last rank has computed: a commit needs every
  // norm. It counts in busy, makespan and both bubbles, and is not in the timeline. Empty = none.
  std::vector<double> step_end;
};

struct SimulatedAction {
  Action action;
  double start = 0;
  double end = 0;
};

struct Simulation {
  double makespan = 0;
  std::vector<double> busy;            // [rank] time its actions need
  std::vector<double> idle;            // [rank] makespan - busy - oversubscribed
  std::vector<double> oversubscribed;  // [rank] ready but without a core
  double bubble_global = 0;            // 1 - sum busy / (P * makespan)
  // (cost - work) / cost: cost = max over ranks of last end - first start, work = mean of busy.
  double bubble_span = 0;
  std::vector<std::vector<SimulatedAction>> timeline;  // [rank], compute actions only
};

// @pre validate(program) succeeded.
[[nodiscard]] Simulation simulate(const Program& program, const SimulationOptions& options);

}  // namespace headrace::schedules
