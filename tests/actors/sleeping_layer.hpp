// A layer kind that copies its input and takes a stated time, for the actor tests.
//
// What it is for: stages whose duration is known and costs no core. Its kind is `sleeping`; how
// long it sleeps and whether it hears the stop flag is set before the model is built. What it does
// not do: compute; it holds one parameter, that never changes, only where W takes time.
// Thread rule: set while no run is under way.
#pragma once

#include <cstdint>

namespace headrace::actors::testing {

struct SleepPlan {
  std::int64_t forward_ns = 0;
  std::int64_t backward_ns = 0;
  std::int64_t weight_ns = 0;
  // Of the first `layers` of these layers one, drawn by (seed, step, microbatch), takes so much
  // longer for each of its actions.
  std::int64_t slow_ns = 0;
  std::uint32_t layers = 1;
  std::uint64_t seed = 0;
  bool deaf = false;  // sleeps in the calling thread and ignores the stop flag
};

// Registers the kind on the first call.
void use_sleeping_layers(const SleepPlan& plan);

}  // namespace headrace::actors::testing
