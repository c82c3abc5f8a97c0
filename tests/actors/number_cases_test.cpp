// Whole runs: token means, clipping, gradient scale, broken numbers.
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

using testing::contains;
using testing::difference;
using testing::distance_beyond;
using testing::rounds;
using testing::tiny_config;
using testing::TinyData;

constexpr std::uint16_t kIgnored = 63;

// Sequences with very unequal shares of ignored targets: sample i has i % 8 of 8 eighths ignored.
std::vector<std::uint16_t> unequal_tokens() {
  std::vector<std::uint16_t> tokens = testing::tiny_tokens(1601);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const std::size_t sample = (i - 1) / 16;
    if ((i - 1) % 16 < 2 * (sample % 8)) tokens[i] = kIgnored;
  }
  return tokens;
}

config::Config with_ignored() {
  config::Config config = tiny_config();
  config.data.ignore_token = kIgnored;
  return config;
}

TEST_CASE("case C02: the loss is the token mean for every cut of the batch") {
  const TinyData data(unequal_tokens());
  config::Config config = with_ignored();
  config.run.steps = 2;
  const RunResult expected = data.run(config);  // M = 8, P = 1
  REQUIRE_MESSAGE(expected.status.is_ok(), expected.status.message());
  CHECK(expected.steps[0].supervised_tokens < expected.steps[0].tokens);
  CHECK(expected.steps[0].supervised_tokens > 0);
  for (const std::int32_t microbatches : {1, 2, 4, 8}) {
    for (const std::int32_t ranks : {1, 2}) {
      CAPTURE(microbatches);
      CAPTURE(ranks);
      config.batch.microbatch_size = 8 / microbatches;
      config.pipeline.ranks = ranks;
      const RunResult run = data.run(config);
      CHECK_EQ(distance_beyond(expected, run, 1e-6), "");
      CHECK(run.steps[0].supervised_tokens == expected.steps[0].supervised_tokens);
    }
  }
}

TEST_CASE("case C22: the same batch as 2 times 8 and 8 times 2 has the same norm") {
  const TinyData data;
  config::Config config = tiny_config();
  config.optimizer.kind = config::OptimizerKind::kSgd;
  config.optimizer.learning_rate = 0.05;
  config.optimizer.weight_decay = 0;
  config.batch.size = 16;
  config.batch.microbatch_size = 8;
  const RunResult two = data.run(config);
  config.batch.microbatch_size = 2;
  const RunResult eight = data.run(config);
  CHECK_EQ(distance_beyond(two, eight, 1e-6), "");
  config.pipeline.ranks = 4;
  CHECK_EQ(difference(eight, data.run(config)), "");
  config.optimizer.clip_norm = 0.01;
  const RunResult clipped = data.run(config);
  CHECK(clipped.steps[0].grad_norm == eight.steps[0].grad_norm);  // told before clipping
  CHECK(clipped.steps[2].loss > eight.steps[2].loss);             // and felt after it
}

// With plain SGD the length of the update is learning rate times clipped norm; a norm told twice
// as large, or clipped per stage, would move the loss by another amount.
TEST_CASE("case C03: clipping scales every stage by one factor") {
  const TinyData data;
  config::Config config = tiny_config();
  config.optimizer.kind = config::OptimizerKind::kSgd;
  config.optimizer.weight_decay = 0;
  config.optimizer.learning_rate = 0.1;
  config.model.tied = true;
  config.run.steps = 1;
  const RunResult free = data.run(config);
  REQUIRE_MESSAGE(free.status.is_ok(), free.status.message());
  const double norm = free.steps[0].grad_norm;
  // A quarter of the learning rate equals clipping at a quarter of the norm: powers of two are
  // exact, so the states are equal bit by bit.
  config.run.steps = 2;
  config.optimizer.learning_rate = 0.025;
  const RunResult slow = data.run(config);
  for (const std::int32_t ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    config::Config clipped = config;
    clipped.optimizer.learning_rate = 0.1;
    clipped.optimizer.clip_norm = norm / 4;
    clipped.pipeline.ranks = ranks;
    const RunResult run = data.run(clipped);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    CHECK(run.steps[0].grad_norm == norm);
    CHECK(run.steps[1].loss == doctest::Approx(slow.steps[1].loss).epsilon(1e-7));
  }
}

TEST_CASE("case C24: a microbatch without supervised tokens adds nothing") {
  // Every fourth sample is ignored whole. Without that microbatch the same tokens are supervised.
  std::vector<std::uint16_t> tokens = testing::tiny_tokens(16 * 8 + 1);
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    if ((i - 1) / 16 % 4 == 3) tokens[i] = kIgnored;
  }
  const TinyData data(tokens);
  config::Config config = with_ignored();
  const RunResult alone = data.run(config);
  REQUIRE_MESSAGE(alone.status.is_ok(), alone.status.message());
  for (const StepRecord& step : alone.steps) {
    CHECK(step.supervised_tokens == 6 * 16);
    CHECK(std::isfinite(step.loss));
    CHECK(step.loss > 1.0);
    CHECK(step.grad_norm > 0);
  }
  config.pipeline.ranks = 4;
  CHECK_EQ(difference(alone, data.run(config)), "");
}

TEST_CASE("case C24: a batch without supervised tokens has loss zero and changes no weight") {
  std::vector<std::uint16_t> tokens(16 * 8 + 1, kIgnored);
  const TinyData data(tokens);
  for (const std::int32_t ranks : {1, 3}) {
    CAPTURE(ranks);
    config::Config config = with_ignored();
    config.pipeline.ranks = ranks;
    Plan plan = testing::plan_of(config);
    const RunResult run = data.run(plan);
    plan.config.run.steps = 0;
    const RunResult untouched = data.run(plan);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    REQUIRE(run.steps.size() == 3);
    for (const StepRecord& step : run.steps) {
      CHECK(step.loss == 0.0);
      CHECK(step.grad_norm == 0.0);
      CHECK(step.supervised_tokens == 0);
    }
    CHECK(run.state_hash == untouched.state_hash);
  }
}

TEST_CASE("case C19: a NaN in any stage stops the run before the update and names the place") {
  const TinyData data;
  for (const std::int32_t stage : {0, 1, 2}) {
    for (const bool queued : {false, true}) {
      CAPTURE(stage);
      CAPTURE(queued);
      config::Config config = tiny_config();
      config.pipeline.ranks = 3;
      config.run.steps = 8;
      config.run.queued = queued;
      config.debug.nan_at = config::FaultPoint{stage, 5};
      const RunResult run = data.run(config);
      CHECK(run.status.code() == StatusCode::kNumerics);
      CHECK(exit_code(run.status.code()) == 5);
      const std::string& text = run.status.message();
      CAPTURE(text);
      CHECK(contains(text, "step 5"));
      CHECK(contains(text, "stage " + std::to_string(stage)));
      CHECK(contains(text, "weight "));
      CHECK(contains(text, "no rank applied an update"));
      CHECK_FALSE(run.stuck);
      REQUIRE(run.steps.size() == 4);
      CHECK(run.steps.back().step == StepIndex(4));
    }
  }
}

TEST_CASE("case C19: steps before the NaN are those of a run without it") {
  const TinyData data;
  config::Config config = tiny_config();
  config.pipeline.ranks = 3;
  config.run.steps = 4;
  const RunResult clean = data.run(config);
  config.debug.nan_at = config::FaultPoint{1, 4};
  const RunResult broken = data.run(config);
  REQUIRE(clean.steps.size() == 4);
  REQUIRE(broken.steps.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(broken.steps[i].loss == clean.steps[i].loss);
}

TEST_CASE("case C19: a learning rate without measure ends with the first broken tensor") {
  const TinyData data;
  for (const std::int32_t ranks : {1, 3}) {
    CAPTURE(ranks);
    config::Config config = tiny_config();
    config.pipeline.ranks = ranks;
    config.optimizer.kind = config::OptimizerKind::kSgd;
    config.optimizer.weight_decay = 0;
    config.run.steps = 5;
    Plan plan = testing::plan_of(config);
    plan.optimizer.learning_rate = 1e30;  // beyond what a config may say
    const RunResult run = data.run(plan);
    CHECK(run.status.code() == StatusCode::kNumerics);
    CAPTURE(run.status.message());
    CHECK(contains(run.status.message(), "step 2"));
    CHECK(contains(run.status.message(), "First non-finite value: stage "));
    CHECK(run.steps.size() == 1);
  }
}

}  // namespace
}  // namespace headrace::actors
