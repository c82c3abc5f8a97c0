// Whole runs that fail: a stage throws, a stage sleeps, a stage never comes back, a stage is slow.
#include "tests/actors/sleeping_layer.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::contains;
using testing::plan_with_layer;
using testing::tiny_config;
using testing::TinyData;
using testing::use_sleeping_layers;

constexpr const char* kSleeping = "sleeping";
constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::int64_t kSecond = 1000 * kMillisecond;

TEST_CASE("case C54: an exception inside a stage ends the run with its text") {
  const TinyData data;
  for (const std::int32_t stage : {0, 1, 2}) {
    for (const bool queued : {false, true}) {
      CAPTURE(stage);
      CAPTURE(queued);
      config::Config config = tiny_config();
      config.pipeline.ranks = 3;
      config.run.queued = queued;
      config.debug.throw_at = config::FaultPoint{stage, 2};
      const RunResult run = data.run(config);
      CHECK(run.status.code() == StatusCode::kStageFailed);
      CHECK(exit_code(run.status.code()) == 4);
      const std::string& text = run.status.message();
      CAPTURE(text);
      CHECK(contains(text, "rank " + std::to_string(stage)));
      CHECK(contains(text, "step 2"));
      CHECK(contains(text, "action " + std::to_string(stage) + "F0"));
      CHECK(contains(text, "debug.throw_at: thrown in stage " + std::to_string(stage)));
      CHECK(run.steps.size() == 1);
      CHECK_FALSE(run.stuck);
      CHECK(run.state_hash.empty());
    }
  }
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST_CASE("action timeout: a stage that sleeps too long ends the run and is named") {
  const TinyData data;
  use_sleeping_layers({.forward_ns = 100 * kSecond});
  for (const bool queued : {false, true}) {
    for (const std::size_t stage : {0, 1, 2}) {
      CAPTURE(stage);
      CAPTURE(queued);
      config::Config config = tiny_config();
      config.run.action_timeout_seconds = 0.4;
      config.run.queued = queued;
      const auto begin = std::chrono::steady_clock::now();
      const RunResult run = data.run(plan_with_layer(config, stage, kSleeping));
      CHECK(seconds_since(begin) < 10);
      CHECK(run.status.code() == StatusCode::kTimeout);
      const std::string& text = run.status.message();
      CAPTURE(text);
      CHECK(contains(text, "step 1"));
      CHECK(contains(text, "run.action_timeout"));
      const std::string rank = "rank " + std::to_string(stage);
      if (!queued) CHECK(contains(text, rank + " is inside " + std::to_string(stage) + "F0"));
      CHECK_FALSE(run.stuck);
      CHECK(run.steps.empty());
    }
  }
}

TEST_CASE("action timeout: a stage that never hears the stop is left behind") {
  const TinyData data;
  use_sleeping_layers({.forward_ns = 11 * kSecond, .deaf = true});
  config::Config config = tiny_config();
  config.batch.size = 1;
  config.run.action_timeout_seconds = 0.4;
  const auto begin = std::chrono::steady_clock::now();
  const RunResult run = data.run(plan_with_layer(config, 1, kSleeping));
  CHECK(seconds_since(begin) < 10);  // it did not wait for the sleeper
  CHECK(run.status.code() == StatusCode::kTimeout);
  CAPTURE(run.status.message());
  CHECK(contains(run.status.message(), "rank 1 is inside 1F0"));
  CHECK(run.stuck);
}

TEST_CASE("action timeout: a slow run whose actions are short is left alone") {
  const TinyData data;
  use_sleeping_layers({.forward_ns = 100 * kMillisecond, .backward_ns = 100 * kMillisecond});
  config::Config config = tiny_config();
  config.run.action_timeout_seconds = 1.0;
  config.run.steps = 2;  // more than three seconds
  const RunResult run = data.run(plan_with_layer(config, 1, kSleeping));
  CHECK_MESSAGE(run.status.is_ok(), run.status.message());
  CHECK(run.wall_seconds > 3.0);
}

TEST_CASE("case C56: a slow stage holds the others back and activations stay bounded") {
  const TinyData data;
  use_sleeping_layers({.forward_ns = kMillisecond, .backward_ns = kMillisecond});
  for (const std::size_t slow : {std::size_t{1}, std::size_t{2}}) {
    CAPTURE(slow);
    config::Config config = tiny_config();
    config.run.steps = 1;
    std::vector<std::int64_t> bytes;
    for (const std::int32_t microbatches : {16, 64}) {
      config.batch.size = microbatches;
      const Plan plan = plan_with_layer(config, slow, kSleeping);
      const RunResult run = data.run(plan);
      REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
      for (std::int32_t r = 0; r < 3; ++r) {
        CHECK(run.peak_activations_bound[Rank(r).index()] == 3 - r);
        CHECK(run.peak_activations[Rank(r).index()] == 3 - r);
        bytes.push_back(plan.memory[Rank(r).index()].total());
      }
    }
    for (std::size_t r = 0; r < 3; ++r) {
      CHECK(static_cast<double>(bytes[r + 3]) < 1.1 * static_cast<double>(bytes[r]));
    }
  }
}

}  // namespace
}  // namespace headrace::actors
