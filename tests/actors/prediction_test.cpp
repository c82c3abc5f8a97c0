// predict: the simulator fed with measured costs; what it says for equal costs is known by hand.
#include "runtime/actors/prediction.hpp"

#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace headrace::actors {
namespace {

// Each stage: F takes 1 s, I 1 s, W 1 s, over 5 counted steps of 8 microbatches.
std::vector<RankTimes> equal_times(std::int32_t ranks, std::size_t chunks = 1) {
  RankTimes times;
  times.steps = 5;
  times.stages.assign(chunks, {40, 40, 40, 40, 40, 40});
  return std::vector<RankTimes>(static_cast<std::size_t>(ranks), times);
}

Plan plan_of(const char* schedule, std::int32_t ranks, std::int32_t chunks = 1) {
  config::Config config = testing::tiny_config();
  config.schedule.name = schedule;
  config.pipeline = {ranks, chunks};
  return testing::plan_of(config);
}

TEST_CASE("prediction: nothing measured predicts nothing") {
  const Plan plan = plan_of("1f1b", 2);
  CHECK(predict(plan, {}, 8).step_seconds == 0);
  std::vector<RankTimes> times = equal_times(2);
  times[1].steps = 0;
  CHECK(predict(plan, times, 8).step_seconds == 0);
  CHECK(predict(plan, times, 8).bubble_global == 0);
}

TEST_CASE("prediction: equal stages give the bubble of the formula") {
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (const std::int32_t ranks : {1, 2, 4}) {
      const Plan plan = plan_of(schedule, ranks);
      const Prediction prediction = predict(plan, equal_times(ranks), 8);
      // M microbatches of F + I + W = 3 s; P - 1 times F going up and I coming down, since the
      // gradient leaves a rank before its W.
      const double idle = 2.0 * (ranks - 1);
      CHECK(prediction.step_seconds == doctest::Approx(3.0 * 8 + idle));
      CHECK(prediction.bubble_global == doctest::Approx(idle / (3.0 * 8 + idle)));
    }
  }
}

TEST_CASE("prediction: both replicas of a stage count in its cost") {
  config::Config config = testing::tiny_config();
  config.schedule.name = "dualpipe";
  config.pipeline = {2, 1};
  config.determinism.reduction_blocks = 2;
  const Plan plan = testing::plan_of(config);
  std::vector<RankTimes> times = equal_times(2, 2);
  const double even = predict(plan, times, 8).step_seconds;
  CHECK(even >= 3.0 * 8);           // a rank computes two stages for half of the microbatches each
  times[0].stages[1].forward *= 3;  // stage 1 for the upper half
  const double low = predict(plan, times, 8).step_seconds;
  CHECK(low > even);
  times[0].stages[1].forward /= 3;
  times[1].stages[1].forward *= 3;  // stage 1 for the lower half: the same mean
  CHECK(predict(plan, times, 8).step_seconds == doctest::Approx(low));
}

TEST_CASE("prediction: chunks are read from their own rank in order") {
  const Plan plan = plan_of("interleaved_1f1b", 2, 2);
  std::vector<RankTimes> times = equal_times(2, 2);
  const Prediction even = predict(plan, times, 8);
  // 2 chunks x 8 microbatches of 3 s per rank, bubble (P - 1) times F + I of one chunk.
  CHECK(even.step_seconds == doctest::Approx(3.0 * 2 * 8 + 2.0));
  times[1].stages[1].forward *= 3;
  CHECK(predict(plan, times, 8).step_seconds > even.step_seconds);
}

TEST_CASE("prediction: fewer cores than ranks take at least the sum of the work") {
  const Plan plan = plan_of("1f1b", 4);
  const Prediction prediction = predict(plan, equal_times(4), 1);
  CHECK(prediction.step_seconds == doctest::Approx(4 * 8 * 3.0));
  CHECK(predict(plan, equal_times(4), 4).step_seconds == doctest::Approx(3.0 * 8 + 2.0 * 3));
}

TEST_CASE("prediction: the end of the step is part of the step") {
  const Plan plan = plan_of("1f1b", 2);
  std::vector<RankTimes> times = equal_times(2);
  for (RankTimes& rank : times) rank.step_end = 5 * 2.0;
  CHECK(predict(plan, times, 8).step_seconds == doctest::Approx(3.0 * 8 + 2.0 + 2.0));
}

}  // namespace
}  // namespace headrace::actors
