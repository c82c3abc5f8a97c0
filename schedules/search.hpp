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

// What auto minimises. Global: the makespan, all ranks begin together and wait for the last, which
// is what a step of ours does, since its commit waits for every norm. Span: the largest of the
// ranks' spans, last end - first start, as in the zero-bubble papers; it may take a longer makespan
// for it.
enum class SearchMeasure { kGlobal, kSpan };

struct SearchGoal {
  SearchMeasure measure = SearchMeasure::kGlobal;
  std::vector<StageCost> stages;  // [stage]; one entry stands for all; empty = 1, 1, 1
  double hop = 0;                 // latency of a transfer between ranks, in the unit of the costs
  // Most activations (chunks, held from F to W) a rank may hold. 0 = 2 P V.
  std::int32_t activation_limit = 0;
  // The share of an activation that is free after I, from 0 to 1; W frees the rest. 0 = all of it
  // is held from F to W, as validate() counts peak_activations. The zero-bubble paper's memory
  // model is 1 - M_W / M_B.
  double released_at_input = 0;
  // Multiplies the orders that are priced: 1 takes about a third of a second for P = 8, M = 32.
  std::int32_t effort = 1;
};

}  // namespace headrace::schedules
