// The greedy policy where it pays: one rank is slowed at random, weight gradients fill the waits.
#include "tests/actors/sleeping_layer.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::difference;
using testing::TinyData;

constexpr std::int64_t kUnit = 1'000'000;  // 1 ms
constexpr std::int32_t kRanks = 4;

// tiny_config on four ranks, a sleeping layer behind the first layer of every stage.
Plan sleeping_plan(const std::string& schedule, std::int32_t chunks, config::PolicyKind policy) {
  config::Config config = testing::tiny_config();
  config.schedule.name = schedule;
  config.schedule.policy = policy;
  config.pipeline = {kRanks, chunks};
  config.batch.size = 16;
  config.model.layers = kRanks * chunks;
  config.run.steps = testing::rounds(4, 2);
  config.determinism.reduction_blocks = 2;
  Plan plan = testing::plan_of(config);
  std::int64_t number = 0;
  std::int32_t index = 0;
  for (auto& stage : plan.partition) {
    for (stages::LayerSpec& layer : stage) layer.index = LayerIndex(index++);
    stages::LayerSpec sleeper;
    sleeper.kind = "sleeping";
    sleeper.number = number++;
    sleeper.index = LayerIndex(index++);
    // The head gives no value on, so that the last stage sleeps before it.
    const bool last = number == plan.program.stages;
    if (last) std::swap(stage.back().index, sleeper.index);
    stage.insert(last ? stage.end() - 1 : stage.end(), sleeper);
  }
  return plan;
}

// Seconds of the steps after the first, which touches memory; the least of several runs each, since
// other work on the machine only adds.
class LeastSeconds {
 public:
  void take(const RunResult& run) {
    steps_.resize(run.steps.size(), 1e9);
    for (std::size_t i = 0; i < run.steps.size(); ++i)
      steps_[i] = std::min(steps_[i], run.steps[i].seconds);
  }
  [[nodiscard]] double sum() const {
    return std::accumulate(steps_.begin() + 1, steps_.end(), 0.0);
  }

 private:
  std::vector<double> steps_;
};

// For every microbatch another rank is slow, so that nobody is the bottleneck throughout: what a
// rank misses while its neighbour is slow it can make up for by weight gradients done meanwhile.
TEST_CASE("greedy: with one rank slowed at random it beats the static order and changes no bit") {
  const TinyData data;
  struct Case {
    const char* schedule;
    std::int32_t chunks;
  };
  constexpr std::uint64_t kSeed = 20261201;
  for (const Case& c : {Case{"zb_h1", 1}, Case{"interleaved_zb", 2}}) {
    testing::use_sleeping_layers({.forward_ns = kUnit,
                                  .backward_ns = kUnit,
                                  .weight_ns = kUnit,
                                  .slow_ns = 5 * kUnit,
                                  .layers = static_cast<std::uint32_t>(kRanks * c.chunks),
                                  .seed = kSeed});
    const std::string schedule = c.schedule;
    CAPTURE(schedule);
    const Plan in_order = sleeping_plan(schedule, c.chunks, config::PolicyKind::kStatic);
    const Plan greedy = sleeping_plan(schedule, c.chunks, config::PolicyKind::kGreedy);
    LeastSeconds of_static, of_greedy;
    double ratio = 0;
    for (int attempt = 0; attempt < (testing::kSanitized ? 1 : 5) && ratio < 1.02; ++attempt) {
      const RunResult a = data.run(in_order);
      const RunResult b = data.run(greedy);
      CHECK_EQ(difference(a, b), "");
      of_static.take(a);
      of_greedy.take(b);
      ratio = of_static.sum() / of_greedy.sum();
    }
    MESSAGE("seed " << kSeed << ", " << schedule << ": static " << of_static.sum() * 1e3
                    << " ms, greedy " << of_greedy.sum() * 1e3 << " ms, ratio " << ratio);
    if (!testing::kSanitized) CHECK(ratio > 1.0);  // instrumented code is no measure of time
  }
}

}  // namespace
}  // namespace headrace::actors
