// Every schedule of the library through whole runs: the same bits, within its bound of memory.
#include "runtime/config/load.hpp"
#include "schedules/registry.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::actors {
namespace {

using testing::difference;
using testing::TinyData;

bool trains(const config::Config& config) {
  if (config.schedule.name == "auto") return true;  // exists everywhere, and a search takes long
  schedules::ScheduleSpec spec;
  spec.name = config.schedule.name;
  spec.ranks = config.pipeline.ranks;
  spec.chunks = config.pipeline.chunks;
  spec.microbatches = config.batch.microbatches();
  const auto program = schedules::make_program(spec);
  return program.is_ok() && !program->forward_only;
}

struct Sizes {
  std::vector<std::int32_t> ranks;
  std::vector<std::int32_t> chunks;
  std::vector<std::int32_t> microbatches;
};

// Every schedule for every size that it exists for; `base` says the rest.
std::vector<config::Config> library(const config::Config& base, const Sizes& sizes) {
  std::vector<config::Config> all;
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    for (const std::int32_t ranks : sizes.ranks) {
      for (const std::int32_t chunks : sizes.chunks) {
        for (const std::int32_t microbatches : sizes.microbatches) {
          config::Config config = base;
          config.schedule.name = std::string(info.name);
          config.pipeline = {ranks, chunks};
          config.batch.size = microbatches * config.batch.microbatch_size;
          if (trains(config)) all.push_back(config);
        }
      }
    }
  }
  return all;
}

std::string text_of(const config::Config& config) {
  return config.schedule.name + " P=" + std::to_string(config.pipeline.ranks) +
         " V=" + std::to_string(config.pipeline.chunks) +
         " M=" + std::to_string(config.batch.microbatches()) + " " +
         std::string(to_string(config.schedule.policy)) + (config.run.queued ? " queued" : "");
}

// A twelfth of the time of a transformer of as many stages.
config::Config mlp_config() {
  config::Config config = testing::tiny_config();
  config.model.kind = config::ModelKind::kMlp;
  config.model.heads = config::ModelConfig().heads;
  config.model.layers = 8;
  config.model.width = 16;
  config.model.context = 4;
  config.model.dropout = 0.1;
  config.run.steps = 2;
  return config;
}

TEST_CASE("library: every schedule gives the bits of one rank whatever policy and mode") {
  const TinyData data;
  constexpr std::uint64_t kSeed = 20261203;
  MESSAGE("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  config::Config base = testing::tiny_config();
  base.model.layers = 8;
  base.model.tied = true;
  base.run.steps = 2;
  base.optimizer.clip_norm = 0.1;
  base.determinism.reduction_blocks = 2;
  const RunResult expected = data.run(base);
  REQUIRE_MESSAGE(expected.status.is_ok(), expected.status.message());
  std::vector<config::Config> cells = library(base, {{1, 2, 3, 4}, {1, 2}, {8}});
  std::set<std::string> names;
  std::shuffle(cells.begin(), cells.end(), random);
  for (config::Config& config : cells) {
    const std::uint64_t bits = random();
    if (testing::kSanitized && !names.insert(config.schedule.name).second) continue;
    names.insert(config.schedule.name);
    config.run.queued = (bits & 9) == 9;  // slow by its delays
    config.schedule.policy =
        (bits & 2) != 0 ? config::PolicyKind::kGreedy : config::PolicyKind::kStatic;
    config.run.recompute =
        (bits & 4) != 0 ? config::RecomputeKind::kBlock : config::RecomputeKind::kNone;
    const std::string cell = text_of(config);
    CAPTURE(cell);
    CHECK_EQ(difference(expected, data.run(config)), "");
  }
  CHECK(names.size() >= 16);  // all but the two that only run forward
}

// Runs one step and compares its counters with the bound: in program order the two are equal.
void check_peaks(const TinyData& data, const config::Config& config) {
  const std::string cell = text_of(config);
  CAPTURE(cell);
  const RunResult run = data.run(config);
  REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
  REQUIRE(run.peak_activations.size() == run.peak_activations_bound.size());
  for (std::size_t r = 0; r < run.peak_activations.size(); ++r) {
    if (config.schedule.policy == config::PolicyKind::kStatic) {
      CHECK(run.peak_activations[r] == run.peak_activations_bound[r]);
    } else {
      CHECK(run.peak_activations[r] <= run.peak_activations_bound[r]);
    }
  }
}

TEST_CASE("library: a run holds what its program says and under greedy no more than its frames") {
  const TinyData data;
  constexpr std::uint64_t kSeed = 20261204;
  MESSAGE("seed " << kSeed);
  std::mt19937_64 random(kSeed);
  config::Config base = mlp_config();
  base.model.layers = 29;  // 32 layers in all
  base.run.steps = 1;
  Sizes sizes{{1, 2, 3, 4, 5, 6, 7, 8}, {1, 2, 3, 4}, {}};
  for (std::int32_t m = 1; m <= 24; ++m) sizes.microbatches.push_back(m);
  std::vector<config::Config> cells = library(base, sizes);
  std::shuffle(cells.begin(), cells.end(), random);
  std::map<std::string, int> counts;
  const int wanted = static_cast<int>(testing::rounds(16, 1));
  for (config::Config& config : cells) {
    const bool small = config.pipeline.ranks * config.pipeline.chunks <= 8;
    if (config.schedule.name == "auto" && (!small || config.batch.microbatches() > 8)) continue;
    if (counts[config.schedule.name]++ >= wanted) continue;
    if (config.batch.microbatches() % 2 == 0) config.determinism.reduction_blocks = 2;
    config.schedule.policy = config::PolicyKind::kStatic;
    check_peaks(data, config);
    config.schedule.policy = config::PolicyKind::kGreedy;
    check_peaks(data, config);
  }
  CHECK(counts.size() >= 16);
}

// Names of the weights among the lines of the state, with their sums.
std::vector<std::string> weights_of(const RunResult& run) {
  std::vector<std::string> lines;
  for (const std::string& line : run.state_lines) {
    if (line.find('#') == std::string::npos) lines.push_back(line);
  }
  return lines;
}

TEST_CASE("case C31: zero-bubble weights equal those of 1f1b and none stays as it was") {
  const TinyData data;
  for (const bool tied : {false, true}) {
    config::Config config = testing::tiny_config();
    config.model.tied = tied;
    config.optimizer.clip_norm = 0.1;
    config.pipeline = {4, 1};
    config.run.steps = testing::rounds(5, 2);
    Plan untouched = testing::plan_of(config);
    untouched.config.run.steps = 0;
    const std::vector<std::string> before = weights_of(data.run(untouched));
    const RunResult whole = data.run(config);
    const std::vector<std::string> after = weights_of(whole);
    REQUIRE(before.size() == after.size());
    for (std::size_t i = 0; i < after.size(); ++i) CHECK(before[i] != after[i]);
    for (const char* name : {"zb_h1", "zb_h2"}) {
      for (const config::PolicyKind policy :
           {config::PolicyKind::kStatic, config::PolicyKind::kGreedy}) {
        config.schedule.name = name;
        config.schedule.policy = policy;
        const std::string cell = text_of(config);
        CAPTURE(cell);
        CHECK_EQ(difference(whole, data.run(config)), "");
      }
    }
    config.schedule = {};
  }
}

TEST_CASE("library: auto takes stated times and a limit and gives the same bits") {
  const TinyData data;
  config::Config config = mlp_config();
  const RunResult expected = data.run(config);
  config.schedule.name = "auto";
  config.pipeline = {4, 1};
  for (const std::int32_t limit : {0, 4}) {
    for (const bool stated : {false, true}) {
      config.schedule.activation_limit = limit;
      config.schedule.times.reset();
      if (stated) config.schedule.times = config::ActionTimes{2, 1, 0.5};
      const RunResult run = data.run(config);
      CAPTURE(limit);
      CAPTURE(stated);
      CHECK_EQ(difference(expected, run), "");
      const auto most = std::max_element(run.peak_activations.begin(), run.peak_activations.end());
      CHECK(*most <= (limit > 0 ? limit : 8));
    }
  }
}

}  // namespace
}  // namespace headrace::actors
