#include "stages/optimizer.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace headrace::stages {
namespace {

OptimizerSpec schedule(DecayKind decay) {
  OptimizerSpec spec;
  spec.learning_rate = 1e-3;
  spec.warmup_steps = 10;
  spec.decay_steps = 110;
  spec.final_fraction = 0.1;
  spec.decay = decay;
  return spec;
}

double rate(DecayKind decay, std::int64_t step) {
  return learning_rate_at(schedule(decay), StepIndex(step));
}

}  // namespace

TEST_CASE("optimizer: learning rates have their golden values") {
  for (const DecayKind decay : {DecayKind::kConstant, DecayKind::kLinear, DecayKind::kCosine}) {
    CHECK(rate(decay, 1) == doctest::Approx(1e-4).epsilon(1e-14));
    CHECK(rate(decay, 5) == doctest::Approx(5e-4).epsilon(1e-14));
    CHECK(rate(decay, 10) == 1e-3);
  }
  CHECK(rate(DecayKind::kConstant, 5000) == 1e-3);
  CHECK(rate(DecayKind::kLinear, 60) == doctest::Approx(5.5e-4).epsilon(1e-14));
  CHECK(rate(DecayKind::kLinear, 110) == doctest::Approx(1e-4).epsilon(1e-14));
  CHECK(rate(DecayKind::kLinear, 999) == doctest::Approx(1e-4).epsilon(1e-14));
  CHECK(rate(DecayKind::kCosine, 60) == doctest::Approx(5.5e-4).epsilon(1e-14));
  // 1e-3 * (0.1 + 0.9 * (1 + cos(pi/4)) / 2), worked out by hand.
  CHECK(rate(DecayKind::kCosine, 35) == doctest::Approx(8.681980515339464e-4).epsilon(1e-14));
  CHECK(rate(DecayKind::kCosine, 110) == doctest::Approx(1e-4).epsilon(1e-14));
  CHECK(rate(DecayKind::kCosine, 999) == doctest::Approx(1e-4).epsilon(1e-14));
}

TEST_CASE("optimizer: the own cosine agrees with the library over a whole decay") {
  for (std::int64_t step = 10; step <= 110; ++step) {
    const double progress = static_cast<double>(step - 10) / 100.0;
    const double expected = 1e-3 * (0.1 + 0.45 * (1 + std::cos(3.14159265358979323846 * progress)));
    CHECK(rate(DecayKind::kCosine, step) == doctest::Approx(expected).epsilon(1e-14));
  }
}

TEST_CASE("optimizer: without warm-up the first step has the peak") {
  OptimizerSpec spec = schedule(DecayKind::kConstant);
  spec.warmup_steps = 0;
  CHECK(learning_rate_at(spec, StepIndex(1)) == 1e-3);
}

TEST_CASE("optimizer: clip factor shrinks long gradients only") {
  OptimizerSpec spec;
  spec.clip_norm = 2;
  CHECK(clip_factor(spec, 1.0) == 1.0);
  CHECK(clip_factor(spec, 2.0) == 1.0);
  CHECK(clip_factor(spec, 8.0) == 0.25);
  CHECK(clip_factor(spec, 0.0) == 1.0);
  spec.clip_norm = 0;
  CHECK(clip_factor(spec, 1e9) == 1.0);
}

TEST_CASE("optimizer: an update carries the corrections of its step") {
  OptimizerSpec spec = schedule(DecayKind::kConstant);
  spec.beta1 = 0.5;
  spec.beta2 = 0.75;
  spec.clip_norm = 1;
  const UpdateContext update = update_at(spec, StepIndex(3), 4.0);
  CHECK(update.bias_correction1 == 1.0F - 0.125F);
  CHECK(update.bias_correction2 == 1.0F - 0.421875F);
  CHECK(update.gradient_scale == 0.25F);
  CHECK(update.learning_rate == doctest::Approx(3e-4));
  CHECK(update_at(spec, StepIndex(1'000'000'000), 0).bias_correction1 == 1.0F);
}

}  // namespace headrace::stages
