// Programs with two replicas of every stage: the same bits, twice the weights, and refusals.
#include "runtime/config/load.hpp"
#include "tests/actors/orders.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::difference;
using testing::tiny_config;
using testing::TinyData;

struct Order {
  const std::string& csv;
  std::int32_t ranks = 2;
  std::int32_t chunks = 1;
  std::int32_t microbatches = 4;
};

const std::vector<Order>& both() {
  static const std::vector<Order> orders{{testing::kDualpipe, 2}, {testing::kChimera, 4}};
  return orders;
}

config::Config base(std::int32_t microbatches) {
  config::Config config = tiny_config();
  config.batch.size = 2 * microbatches;
  config.batch.microbatch_size = 2;
  config.determinism.reduction_blocks = 2;
  return config;
}

config::Config with_order(config::Config config, const Order& order,
                          const data::TemporaryFolder& folder) {
  config.schedule.file = folder.write("order.csv", order.csv);
  config.pipeline = {order.ranks, order.chunks};
  return config;
}

TEST_CASE("two replicas: every device mode and policy gives the bits of one rank") {
  const TinyData data;
  const data::TemporaryFolder folder;
  for (const bool tied : {false, true}) {
    for (const Order& order : both()) {
      config::Config config = base(order.microbatches);
      config.model.tied = tied;
      config.model.dropout = 0.1;
      config.optimizer.clip_norm = 0.1;
      const RunResult alone = data.run(config);
      config = with_order(config, order, folder);
      for (const int bits : {0, 1, 2, 3}) {
        config.run.queued = (bits & 1) != 0;
        config.schedule.policy =
            (bits & 2) != 0 ? config::PolicyKind::kGreedy : config::PolicyKind::kStatic;
        config.run.recompute =
            bits == 2 ? config::RecomputeKind::kBlock : config::RecomputeKind::kNone;
        CAPTURE(tied);
        CAPTURE(order.ranks);
        CAPTURE(bits);
        const RunResult run = data.run(config);
        CHECK_EQ(difference(alone, run), "");
        for (std::size_t r = 0; r < run.peak_activations.size(); ++r) {
          CHECK(run.peak_activations[r] <= run.peak_activations_bound[r]);
        }
      }
    }
  }
}

TEST_CASE("two replicas: any even number of blocks gives the tree of one rank") {
  const TinyData data;
  const data::TemporaryFolder folder;
  // 6 blocks: neither half is a whole subtree, so that each ships two roots.
  const std::string six = [] {
    std::string low, high;
    for (int m = 0; m < 6; ++m) {
      const std::string n = std::to_string(m), k = std::to_string(m + 6);
      low += "0F" + n + ",1F" + k + ",1B" + k + ",0B" + n + (m < 5 ? "," : "\n");
      high += "0F" + k + ",1F" + n + ",1B" + n + ",0B" + k + (m < 5 ? "," : "\n");
    }
    return low + high;
  }();
  for (const std::int32_t blocks : {2, 4, 6, 12}) {
    CAPTURE(blocks);
    config::Config config = base(12);
    config.determinism.reduction_blocks = blocks;
    const RunResult alone = data.run(config);
    CHECK_EQ(difference(alone, data.run(with_order(config, {six, 2, 1, 12}, folder))), "");
  }
}

TEST_CASE("two replicas: frozen stages keep their bits") {
  const TinyData data;
  const data::TemporaryFolder folder;
  const auto one = [](const char* kind) { return config::LayerRun{kind, 1, {}}; };
  for (const std::size_t frozen : {0U, 1U}) {
    config::Config config = base(4);
    config.stages = {{{one("embedding"), {"block", 2, {}}}, false},
                     {{{"block", 2, {}}, one("norm"), one("head")}, false}};
    config.stages[frozen].frozen = true;
    config.pipeline = {2, 1};
    const RunResult alone = data.run(config);
    CAPTURE(frozen);
    CHECK_EQ(difference(alone, data.run(with_order(config, both()[0], folder))), "");
  }
}

TEST_CASE("two replicas: both are counted in memory and named in the partition") {
  const data::TemporaryFolder folder;
  const Plan one = testing::plan_of([] {
    config::Config config = base(4);
    config.pipeline = {2, 1};
    return config;
  }());
  const Plan two = testing::plan_of(with_order(base(4), both()[0], folder));
  const std::int64_t all = one.memory[0].parameters + one.memory[1].parameters;
  const std::int64_t gradients = one.memory[0].gradients + one.memory[1].gradients;
  for (const RankMemory& memory : two.memory) {
    CHECK(memory.parameters == all);
    // One accumulator for each half of two blocks, where one rank needs two; the other replica's
    // roots lie in the slots.
    CHECK(memory.gradients == gradients / 2);
    CHECK(memory.boundaries >= gradients / 2);
  }
  CHECK(describe(two).find("stage 1 on rank 1 and 0: ") != std::string::npos);
}

TEST_CASE("two replicas: blocks that cannot be shared are refused with the numbers") {
  const data::TemporaryFolder folder;
  config::Config config = base(4);
  config.determinism.reduction_blocks = 1;
  config = with_order(config, both()[0], folder);
  const auto finished = config::finish_config(config);
  REQUIRE(finished.is_ok());
  const auto plan = make_plan(*finished);
  REQUIRE_FALSE(plan.is_ok());
  const std::string text = plan.status().message();
  CHECK_MESSAGE(text.starts_with("determinism.reduction_blocks: "), text);
  CHECK_MESSAGE(
      text.find("multiple of 2 that divides the 4 microbatches; found 1") != std::string::npos,
      text);
}

TEST_CASE("two replicas: a weight that breaks in one of them is named") {
  const TinyData data;
  const data::TemporaryFolder folder;
  config::Config config = with_order(base(4), both()[0], folder);
  config.debug.nan_at = config::FaultPoint{1, 2};
  const RunResult run = data.run(config);
  CHECK(run.status.code() == StatusCode::kNumerics);
  CHECK_MESSAGE(run.status.message().find("stage 1") != std::string::npos, run.status.message());
  CHECK(run.steps.size() == 1);
}

TEST_CASE("two replicas: a V shape that hands over to itself equals one rank") {
  const TinyData data;
  const data::TemporaryFolder folder;
  config::Config config = base(2);
  const RunResult alone = data.run(config);
  for (const bool greedy : {false, true}) {
    config::Config shaped = with_order(config, {testing::kVShape, 2, 2, 2}, folder);
    shaped.schedule.policy = greedy ? config::PolicyKind::kGreedy : config::PolicyKind::kStatic;
    CHECK_EQ(difference(alone, data.run(shaped)), "");
    shaped.run.queued = true;
    CHECK_EQ(difference(alone, data.run(shaped)), "");
  }
}

}  // namespace
}  // namespace headrace::actors
