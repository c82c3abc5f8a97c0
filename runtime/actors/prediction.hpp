// What the simulator says a step should take, from the costs a run has measured.
//
// What it is for: the predicted bubble beside the measured one. What it does not do: measure.
// Thread rule: pure functions.
#pragma once

#include "runtime/actors/plan.hpp"
#include "runtime/actors/rank_times.hpp"

#include <cstdint>
#include <span>

namespace headrace::actors {

struct Prediction {
  double bubble_global = 0;
  double step_seconds = 0;
};

// All zero when nothing was measured yet. times: [rank].
[[nodiscard]] Prediction predict(const Plan& plan, std::span<const RankTimes> times,
                                 std::int32_t cores);

}  // namespace headrace::actors
