// The search behind `auto`: an order for given durations and a memory limit.
//
// What it is for: durations of real stages differ, and no named schedule fits them all; the idea is
// the automatic schedule of zero-bubble (arXiv 2401.10241, section 3). What it does not do: run for
// a time, which would make the order a matter of luck: its effort is a count, so that every process
// finds the same order. Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/stage_cost.hpp"

#include <cstdint>
#include <vector>

namespace headrace::schedules {

struct SearchGoal {
  std::vector<StageCost> stages;  // [stage]; one entry stands for all; empty = 1, 1, 1
  double hop = 0;                 // latency of a transfer between ranks, in the unit of the costs
  // Most activations (chunks, held from F to W) a rank may hold. 0 = 2 P V.
  std::int32_t activation_limit = 0;
};

}  // namespace headrace::schedules
