// Optimizer settings, the learning-rate schedule and what a commit tells every rank.
//
// What it is for: learning rate, bias corrections and clip factor are computed once, by the
// scheduler, from these pure functions, and travel with the commit. What it does not do: touch
// weights (Stage). Thread rule: values and pure functions.
#pragma once

#include "runtime/base/ids.hpp"

#include <cstdint>

namespace headrace::stages {

enum class OptimizerKind { kAdamw, kSgd };
enum class DecayKind { kConstant, kLinear, kCosine };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::kAdamw;
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double momentum = 0;      // sgd
  double weight_decay = 0;  // matrices only
  double clip_norm = 0;     // 0 = off
  DecayKind decay = DecayKind::kCosine;
  std::int64_t warmup_steps = 0;
  std::int64_t decay_steps = 0;  // total steps of the schedule
  double final_fraction = 0.1;   // learning rate at the end / peak
};

// Learning rate of update `step` (first is 1): linear warm-up over warmup_steps reaching the peak
// at step == warmup_steps, then the decay, reaching final_fraction at decay_steps. No libm (own
// cosine).
[[nodiscard]] double learning_rate_at(const OptimizerSpec& spec, StepIndex step);

// min(1, clip_norm / norm); 1 when clipping is off.
[[nodiscard]] double clip_factor(const OptimizerSpec& spec, double norm);

// What every rank applies, alike.
struct UpdateContext {
  float learning_rate = 0;
  float bias_correction1 = 1;  // 1 - beta1^step, by repeated multiplication
  float bias_correction2 = 1;
  float gradient_scale = 1;  // clip factor
};
[[nodiscard]] UpdateContext update_at(const OptimizerSpec& spec, StepIndex step, double norm);

}  // namespace headrace::stages
