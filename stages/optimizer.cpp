#include "stages/optimizer.hpp"

#include <algorithm>

namespace headrace::stages {
namespace {

// Taylor series on [0, pi/4], where the terms left out are below 1e-17.
double cosine_small(double x) {
  const double square = x * x;
  double term = 1, sum = 1;
  for (int k = 1; k <= 9; ++k) {
    term *= -square / static_cast<double>((2 * k - 1) * (2 * k));
    sum += term;
  }
  return sum;
}

double sine_small(double x) {
  const double square = x * x;
  double term = x, sum = x;
  for (int k = 1; k <= 9; ++k) {
    term *= -square / static_cast<double>((2 * k) * (2 * k + 1));
    sum += term;
  }
  return sum;
}

// cos(pi * p) for p in [0, 1], without libm, so that the learning rate is the same everywhere.
double cosine_of_half_turns(double p) {
  constexpr double kPi = 3.14159265358979323846;
  if (p > 0.5) return -cosine_of_half_turns(1 - p);
  return p <= 0.25 ? cosine_small(kPi * p) : sine_small(kPi * (0.5 - p));
}

// 1 - beta^step. Once the power no longer changes the difference from one, it is one.
double bias_correction(double beta, StepIndex step) {
  constexpr double kInvisible = 1e-20;
  double power = 1;
  for (std::int64_t i = 0; i < step.value && power > kInvisible; ++i) power *= beta;
  return 1 - power;
}

}  // namespace

double learning_rate_at(const OptimizerSpec& spec, StepIndex step) {
  if (step.value < spec.warmup_steps) {
    return spec.learning_rate * static_cast<double>(step.value) /
           static_cast<double>(spec.warmup_steps);
  }
  const std::int64_t span = spec.decay_steps - spec.warmup_steps;
  const std::int64_t into = step.value - spec.warmup_steps;
  const double progress =
      span <= 0 ? 1.0 : std::min(1.0, static_cast<double>(into) / static_cast<double>(span));
  switch (spec.decay) {
    case DecayKind::kConstant:
      return spec.learning_rate;
    case DecayKind::kLinear:
      return spec.learning_rate * (1 - (1 - spec.final_fraction) * progress);
    case DecayKind::kCosine:
      return spec.learning_rate * (spec.final_fraction + (1 - spec.final_fraction) * 0.5 *
                                                             (1 + cosine_of_half_turns(progress)));
  }
  return spec.learning_rate;
}

double clip_factor(const OptimizerSpec& spec, double norm) {
  if (spec.clip_norm <= 0 || norm <= spec.clip_norm) return 1;
  return spec.clip_norm / norm;
}

UpdateContext update_at(const OptimizerSpec& spec, StepIndex step, double norm) {
  UpdateContext update;
  update.learning_rate = static_cast<float>(learning_rate_at(spec, step));
  update.bias_correction1 = static_cast<float>(bias_correction(spec.beta1, step));
  update.bias_correction2 = static_cast<float>(bias_correction(spec.beta2, step));
  update.gradient_scale = static_cast<float>(clip_factor(spec, norm));
  return update;
}

}  // namespace headrace::stages
