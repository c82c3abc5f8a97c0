// How long the actions of one stage take.
//
// What it is for: simulator and search share it. What it does not do: measure. Thread rule: a
// value.
#pragma once

namespace headrace::schedules {

// In one unit of the caller's choice, per stage chunk.
struct StageCost {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;  // a full backward costs backward_input + backward_weight
};

}  // namespace headrace::schedules
