// A whole model as one stage, stepped without actors.
//
// What it is for: the training step as layers and kernels alone make it. What it does not do: wait
// for anybody; check the loss. Thread rule: one thread.
#pragma once

#include "kernels/device.hpp"
#include "runtime/actors/plan.hpp"
#include "stages/stage.hpp"
#include "tools/bench/timed_device.hpp"

#include <memory>

namespace headrace::bench {

class StageStep {
 public:
  // @pre the plan has one rank and one stage.
  explicit StageStep(const actors::Plan& plan);

  // One step: forward, backward and update over all microbatches. Returns its seconds.
  double run();
  [[nodiscard]] OperatorTimes& times() { return times_; }

 private:
  OperatorTimes times_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Stream> stream_;
  kernels::Buffer workspace_, inputs_, targets_;
  std::unique_ptr<stages::Stage> stage_;
  stages::OptimizerSpec optimizer_;
  std::int32_t microbatches_;
  StepIndex step_{0};
};

}  // namespace headrace::bench
