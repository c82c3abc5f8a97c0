// Whole runs: the same bits for every layout, schedule, policy and device mode.
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::difference;
using testing::tiny_config;
using testing::TinyData;

struct Layout {
  std::string schedule = "1f1b";
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  bool queued = false;
};

config::Config with_layout(config::Config config, const Layout& layout) {
  config.schedule.name = layout.schedule;
  config.pipeline = {layout.ranks, layout.chunks};
  config.run.queued = layout.queued;
  return config;
}

// Those that a model of so many blocks can fill; queued ones are slow by their delays.
std::vector<Layout> layouts(const config::Config& config) {
  std::vector<Layout> all{{"gpipe", 1, 1},
                          {"1f1b", 2, 1},
                          {"1f1b", 4, 1},
                          {"1f1b", 4, 1, true},
                          {"gpipe", 4, 1},
                          {"interleaved_1f1b", 2, 2},
                          {"interleaved_1f1b", 2, 2, true}};
  if (config.model.layers >= 8) all.push_back({"interleaved_1f1b", 4, 2});
  return all;
}

// Runs the config on one rank and on every layout; all must be equal.
RunResult check_all_layouts(const TinyData& data, const config::Config& config) {
  RunResult alone = data.run(with_layout(config, {}));
  REQUIRE_MESSAGE(alone.status.is_ok(), alone.status.message());
  REQUIRE(static_cast<std::int64_t>(alone.steps.size()) == config.run.steps);
  for (const Layout& layout : layouts(config)) {
    CAPTURE(layout.schedule);
    CAPTURE(layout.ranks);
    CAPTURE(layout.chunks);
    CAPTURE(layout.queued);
    CHECK_EQ(difference(alone, data.run(with_layout(config, layout))), "");
  }
  return alone;
}

config::Config eight_blocks() {
  config::Config config = tiny_config();
  config.model.layers = 8;
  config.run.steps = testing::rounds(6, 2);
  return config;
}

TEST_CASE("case C01: losses norms and state are the same bits for every layout") {
  const TinyData data;
  const RunResult run = check_all_layouts(data, eight_blocks());
  CHECK(run.steps.back().loss < run.steps.front().loss);
  CHECK(run.state_hash.size() == 64);
}

// The lines of weights, without the moments.
std::vector<std::string> weights_of(const RunResult& run) {
  std::vector<std::string> lines;
  for (const std::string& line : run.state_lines) {
    if (line.find('#') == std::string::npos) lines.push_back(line);
  }
  return lines;
}

bool is_drawn(const std::string& line) {
  return line.find("weight f32") != std::string::npos && line.find("norm") == std::string::npos &&
         line.find("ln") == std::string::npos;
}

TEST_CASE("case C01: the initial weights are the same everywhere and differ between layers") {
  const TinyData data;
  std::vector<std::string> expected;
  for (const Layout& layout : std::vector<Layout>{{}, {"1f1b", 4}, {"interleaved_1f1b", 4, 2}}) {
    Plan plan = testing::plan_of(with_layout(eight_blocks(), layout));
    plan.config.run.steps = 0;
    const RunResult run = data.run(plan);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    CHECK(run.steps.empty());
    const std::vector<std::string> weights = weights_of(run);
    REQUIRE(weights.size() > 8 * 8);
    if (expected.empty()) expected = weights;
    CHECK(weights == expected);
  }
  // Checksums of tensors that are drawn at random, by shape.
  std::map<std::string, std::set<std::string>> seen;
  std::size_t drawn = 0;
  for (const std::string& line : expected) {
    if (!is_drawn(line)) continue;
    ++drawn;
    const std::size_t hash = line.rfind(' ');
    const std::size_t shape = line.rfind(' ', hash - 1);
    CAPTURE(line);
    CHECK(seen[line.substr(shape, hash - shape)].insert(line.substr(hash)).second);
  }
  CHECK(drawn >= 8 * 4 + 2);  // four matrices a block, embedding and head
}

TEST_CASE("case C04: a tied model is the same bits whether its ends share a rank or not") {
  const TinyData data;
  config::Config config = tiny_config();
  config.model.tied = true;
  config.run.steps = testing::rounds(12, 3);
  const RunResult run = check_all_layouts(data, config);
  std::int64_t embedding = 0;
  for (const std::string& line : run.state_lines) {
    if (line.find("head") != std::string::npos) FAIL_CHECK(line);  // the matrix is listed once
    if (line.find(" 64x32 ") != std::string::npos) ++embedding;
  }
  CHECK(embedding == 3);  // weight and two moments
}

TEST_CASE("case C32: with clipping active on every step the norm is the same bits") {
  const TinyData data;
  config::Config config = tiny_config();
  config.optimizer.clip_norm = 0.05;
  config.model.tied = true;
  config.run.steps = testing::rounds(10, 2);
  const RunResult run = check_all_layouts(data, config);
  for (const StepRecord& step : run.steps) CHECK(step.grad_norm > 0.05);
}

TEST_CASE("case C13: fewer microbatches than stages train and equal one stage") {
  const TinyData data;
  for (const std::int32_t microbatches : {1, 2, 3}) {
    config::Config config = tiny_config();
    config.batch.size = 2 * microbatches;
    config.batch.microbatch_size = 2;
    const RunResult alone = data.run(with_layout(config, {}));
    for (const std::string schedule : {"1f1b", "gpipe"}) {
      CAPTURE(microbatches);
      CAPTURE(schedule);
      const RunResult run = data.run(with_layout(config, {schedule, 4}));
      CHECK_EQ(difference(alone, run), "");
      if (schedule != "1f1b") continue;
      for (std::int32_t r = 0; r < 4; ++r) {
        CHECK(run.peak_activations[Rank(r).index()] == std::min(microbatches, 4 - r));
      }
    }
    const RunResult chunks = data.run(with_layout(config, {"interleaved_1f1b", 4, 1}));
    CHECK_EQ(difference(alone, chunks), "");
  }
}

TEST_CASE("case C15: dropout masks are the same for every layout with recompute on and off") {
  const TinyData data;
  config::Config config = tiny_config();
  config.model.dropout = 0.1;
  config.batch.size = 4;
  config.run.steps = testing::rounds(6, 2);
  const RunResult kept = check_all_layouts(data, config);
  config.run.recompute = config::RecomputeKind::kBlock;
  const RunResult recomputed = check_all_layouts(data, config);
  CHECK_EQ(difference(kept, recomputed), "");
  config.model.dropout = 0;
  CHECK_NE(difference(kept, data.run(config)), "");  // the masks do something
}

TEST_CASE("case C26: gpipe in both backward orders equals 1f1b") {
  const TinyData data;
  for (const std::int32_t ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const config::Config config = tiny_config();
    const RunResult expected = data.run(with_layout(config, {"1f1b", ranks}));
    config::Config gpipe = with_layout(config, {"gpipe", ranks});
    CHECK_EQ(difference(expected, data.run(gpipe)), "");
    gpipe.schedule.backward = config::BackwardOrder::kDescending;
    CHECK_EQ(difference(expected, data.run(gpipe)), "");
    gpipe.determinism.reduction_blocks = 4;
    config::Config blocks = with_layout(config, {"1f1b", 1});
    blocks.determinism.reduction_blocks = 4;
    CHECK_EQ(difference(data.run(blocks), data.run(gpipe)), "");
  }
}

TEST_CASE("same bits: greedy equals static inline and queued for every schedule") {
  const TinyData data;
  const config::Config config = tiny_config();
  const RunResult expected = data.run(config);
  std::vector<config::Config> all;
  for (const Layout& layout : layouts(config)) all.push_back(with_layout(config, layout));
  for (const bool queued : {false, true}) {
    all.push_back(with_layout(config, {"gpipe", 4, 1, queued}));
    all.back().schedule.backward = config::BackwardOrder::kDescending;
  }
  for (config::Config& greedy : all) {
    greedy.schedule.policy = config::PolicyKind::kGreedy;
    CAPTURE(greedy.schedule.name);
    CAPTURE(greedy.pipeline.ranks);
    CAPTURE(greedy.run.queued);
    CHECK_EQ(difference(expected, data.run(greedy)), "");
  }
}

TEST_CASE("same bits: shared pool threads and two runs of one plan change nothing") {
  const TinyData data;
  config::Config config = with_layout(tiny_config(), {"1f1b", 4});
  const RunResult expected = data.run(config);
  CHECK_EQ(difference(expected, data.run(config)), "");
  RunOptions options;
  options.detached = false;
  CHECK_EQ(difference(expected, data.run(config, options)), "");
  config.ranks.assign(4, {0, config::DeviceType::kCpu, 2});
  CHECK_EQ(difference(expected, data.run(config)), "");
}

std::vector<config::StageConfig> stages_of(std::int32_t frozen_stage) {
  const auto one = [](const char* kind) { return config::LayerRun{kind, 1, {}}; };
  std::vector<config::StageConfig> stages{{{one("embedding"), one("block")}, false},
                                          {{{"block", 2, {}}}, false},
                                          {{one("block"), one("norm"), one("head")}, false}};
  if (frozen_stage >= 0) stages[static_cast<std::size_t>(frozen_stage)].frozen = true;
  return stages;
}

// The same freezing on one rank: an interleaved program with three chunks.
TEST_CASE("case C30: frozen stages keep their bits and equal one rank with the same freezing") {
  const TinyData data;
  for (const std::int32_t frozen : {0, 1, 2}) {
    CAPTURE(frozen);
    config::Config config = tiny_config();
    config.optimizer.weight_decay = 0.1;
    config.stages = stages_of(frozen);
    config.pipeline = {3, 1};
    Plan untouched = testing::plan_of(config);
    untouched.config.run.steps = 0;
    const std::vector<std::string> before = weights_of(data.run(untouched));
    const RunResult run = data.run(config);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    const std::vector<std::string> after = weights_of(run);
    REQUIRE(before.size() == after.size());
    std::int64_t kept = 0;
    const char* const prefixes[3][3] = {{"embedding", "token", "block.0."},
                                        {"block.1.", "block.2.", "block.2."},
                                        {"block.3.", "norm.", "head."}};
    for (std::size_t i = 0; i < after.size(); ++i) {
      bool expected_kept = false;
      for (const char* prefix : prefixes[frozen])
        expected_kept = expected_kept || after[i].rfind(prefix, 0) == 0;
      CAPTURE(after[i]);
      CHECK((after[i] == before[i]) == expected_kept);
      kept += expected_kept ? 1 : 0;
    }
    CHECK(kept > 0);
    for (const bool queued : {false, true}) {
      config::Config alone = config;
      alone.schedule.name = "interleaved_1f1b";
      alone.pipeline = {1, 3};
      alone.run.queued = queued;
      CHECK_EQ(difference(run, data.run(alone)), "");
    }
  }
}

}  // namespace
}  // namespace headrace::actors
