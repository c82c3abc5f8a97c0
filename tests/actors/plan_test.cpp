// make_plan: what fits together is planned, what does not is refused with its reason.
#include "runtime/actors/plan.hpp"

#include "runtime/config/load.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>

namespace headrace::actors {
namespace {

using testing::contains;
using testing::plan_of;
using testing::tiny_config;

config::Config config_of(const char* schedule, std::int32_t ranks, std::int32_t chunks = 1) {
  config::Config config = tiny_config();
  config.schedule.name = schedule;
  config.pipeline = {ranks, chunks};
  return config;
}

std::string refusal_of(const config::Config& config) {
  const auto finished = config::finish_config(config);
  REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
  const auto plan = make_plan(*finished);
  REQUIRE_FALSE(plan.is_ok());
  CHECK(plan.status().code() == StatusCode::kConfig);
  return plan.status().message();
}

config::LayerRun run_of(const char* kind, std::int32_t count = 1) { return {kind, count, {}}; }

std::vector<config::StageConfig> three_stages() {
  return {{{run_of("embedding"), run_of("block")}, false},
          {{run_of("block", 2)}, false},
          {{run_of("block"), run_of("norm"), run_of("head")}, false}};
}

TEST_CASE("plan: every rank has its actions and the end of the step") {
  const Plan plan = plan_of(config_of("1f1b", 4));
  CHECK(plan.program.ranks == 4);
  CHECK(plan.partition.size() == 4);
  CHECK(plan.microbatches() == 8);
  for (std::int32_t r = 0; r < 4; ++r) {
    const auto& actions = plan.program.actions[Rank(r).index()];
    REQUIRE(actions.size() == 8 * 2 + 4);
    CHECK(actions[16].kind == schedules::ActionKind::kReduceGrad);
    CHECK(actions[17].kind == schedules::ActionKind::kNorm);
    CHECK(actions[18].kind == schedules::ActionKind::kCommit);
    CHECK(actions[19].kind == schedules::ActionKind::kOptimizer);
    CHECK(plan.facts.peak_activations[Rank(r).index()] == 4 - r);  // min(M, P - r)
    CHECK(plan.rank_of(StageIndex(r)) == Rank(r));
  }
}

TEST_CASE("plan: layers never vanish and no byte is counted twice for any number of ranks") {
  const Plan alone = plan_of(config_of("1f1b", 1));
  for (const std::int32_t ranks : {2, 3, 4, 7}) {
    const Plan plan = plan_of(config_of("1f1b", ranks));
    std::size_t layers = 0;
    RankMemory sum;
    for (const auto& stage : plan.partition) layers += stage.size();
    for (const RankMemory& memory : plan.memory) {
      sum.parameters += memory.parameters;
      sum.gradients += memory.gradients;
      sum.optimizer += memory.optimizer;
      CHECK(memory.total() == memory.parameters + memory.gradients + memory.optimizer +
                                  memory.boundaries + memory.stash + memory.weight_inputs +
                                  memory.workspace);
    }
    CHECK(layers == 4 + 3);
    CHECK(sum.parameters == alone.memory[0].parameters);
    CHECK(sum.gradients == alone.memory[0].gradients);
    CHECK(sum.optimizer == alone.memory[0].optimizer);
    // Two moments in fp32, each tensor rounded up to an alignment.
    CHECK(sum.optimizer >= 2 * 4 * stages::parameter_count(plan.model));
    CHECK(sum.optimizer < 2 * 4 * stages::parameter_count(plan.model) * 11 / 10);
    CHECK(plan.memory[0].boundaries > 0);
  }
  // No slot between stages, but the tokens of two steps, inputs and targets, as int32.
  CHECK(alone.memory[0].boundaries == 2 * 2 * 4 * alone.config.batch.size * alone.shape.positions);
}

TEST_CASE("plan: memory follows the peaks of the schedule") {
  const Plan narrow = plan_of(config_of("1f1b", 2));
  const Plan wide = plan_of(config_of("gpipe", 2));
  // gpipe holds all 8 microbatches of a stage, 1f1b holds 2 on rank 0 and 1 on rank 1.
  CHECK(wide.memory[0].stash == 4 * narrow.memory[0].stash);
  CHECK(wide.memory[1].stash == 8 * narrow.memory[1].stash);
  config::Config config = config_of("gpipe", 2);
  config.run.recompute = config::RecomputeKind::kBlock;
  const Plan recomputed = plan_of(config);
  CHECK(recomputed.memory[0].stash < wide.memory[0].stash);
}

TEST_CASE("plan: every stage gets the frames that its peaks ask for") {
  for (const char* name : {"1f1b", "gpipe", "interleaved_1f1b"}) {
    const bool chunks = std::string(name) == "interleaved_1f1b";
    config::Config config = config_of(name, 2, chunks ? 2 : 1);
    const Plan plan = plan_of(config);
    for (std::int32_t s = 0; s < plan.program.stages; ++s) {
      const stages::StageOptions options = stage_options(plan, StageIndex(s));
      const schedules::StagePeaks& peaks = plan.facts.stages[StageIndex(s).index()];
      CHECK(options.frames.stash == peaks.stash);
      CHECK(options.frames.activation == peaks.activation);
      CHECK(options.frames.weight_inputs >= 1);
      CHECK(options.input_gradient == (s > 0));
      CHECK(options.microbatches == 8);
    }
  }
}

TEST_CASE("plan: gradients flow no further down than something trains") {
  config::Config config = config_of("1f1b", 3);
  config.stages = three_stages();
  config.stages[0].frozen = true;
  Plan plan = plan_of(config);
  CHECK(plan.gradient_flows == std::vector<bool>{false, true, true});
  CHECK_FALSE(stage_options(plan, StageIndex(1)).input_gradient);
  CHECK(stage_options(plan, StageIndex(2)).input_gradient);
  config.stages[0].frozen = false;
  config.stages[1].frozen = true;
  plan = plan_of(config);
  CHECK(plan.gradient_flows == std::vector<bool>{true, true, true});
  CHECK(plan.memory[1].optimizer == 0);
}

TEST_CASE("plan: a forward-only schedule is refused") {
  const std::string text = refusal_of(config_of("forward_only", 2));
  CHECK(contains(text, "forward_only"));
  CHECK(contains(text, "schedule.name"));
}

TEST_CASE("plan: an unknown schedule is refused with the known ones") {
  const std::string text = refusal_of(config_of("1f2b", 2));
  CHECK(contains(text, "'1f2b'"));
  CHECK(contains(text, "interleaved_1f1b"));
}

TEST_CASE("plan: microbatches that interleaving cannot divide are refused with the numbers") {
  config::Config config = config_of("interleaved_1f1b", 2, 2);
  config.batch.size = 7;  // M = 7, P = 2: M must be a multiple of 7 div 2 = 3
  const std::string text = refusal_of(config);
  CHECK(contains(text, "M=7"));
  CHECK(contains(text, "P=2"));
}

TEST_CASE("plan: 1f1b over chunks is refused") {
  CHECK(contains(refusal_of(config_of("1f1b", 2, 2)), "V=2"));
}

bool head_is_frozen(const Plan& plan) { return plan.partition.back().back().frozen; }

TEST_CASE("plan: a tied head follows a frozen embedding and cannot be frozen alone") {
  config::Config config = config_of("1f1b", 3);
  config.model.tied = true;
  config.stages = three_stages();
  CHECK_FALSE(head_is_frozen(plan_of(config)));
  config.stages[0].frozen = true;
  const Plan plan = plan_of(config);
  CHECK(head_is_frozen(plan));
  CHECK_FALSE(plan.partition.back().front().frozen);
  config.stages[0].frozen = false;
  config.stages[2].frozen = true;
  CHECK(contains(refusal_of(config), "model.tied"));
}

TEST_CASE("plan: tied ends exchange only where they are on different ranks") {
  config::Config config = config_of("1f1b", 2);
  CHECK_FALSE(plan_of(config).tied_exchange);
  config.model.tied = true;
  CHECK(plan_of(config).tied_exchange);
  config.pipeline.ranks = 1;
  CHECK_FALSE(plan_of(config).tied_exchange);
}

TEST_CASE("plan: a stage list with a layer too few is refused") {
  config::Config config = config_of("1f1b", 3);
  config.stages = three_stages();
  config.stages[2].layers = {run_of("block"), run_of("head")};  // no norm
  CHECK(contains(refusal_of(config), "norm"));
}

TEST_CASE("plan: the description names each stage with its rank and layers") {
  const std::string text = describe(plan_of(config_of("1f1b", 2)));
  CHECK(contains(text, "stage 0 on rank 0: embedding block.0"));
  CHECK(contains(text, "stage 1 on rank 1: "));
  CHECK(contains(text, "norm head"));
  CHECK(contains(text, "memory per rank in MiB"));
}

TEST_CASE("plan: a tied exchange is paid for where its slots lie") {
  config::Config config = config_of("1f1b", 3);
  config.model.tied = false;
  const Plan untied = plan_of(config);
  config.model.tied = true;
  const Plan tied = plan_of(config);
  const std::int64_t matrix = tied.model.vocabulary * tied.model.width * 4;
  CHECK(tied.tied_exchange);
  CHECK(tied.memory[0].boundaries - untied.memory[0].boundaries >= 2 * matrix);
  CHECK(tied.memory[2].boundaries == untied.memory[2].boundaries);
}

TEST_CASE("plan: greedy may fill the frames of every stage of a rank") {
  config::Config config = config_of("interleaved_1f1b", 2);
  config.pipeline.chunks = 2;
  const Plan fixed = plan_of(config);
  config.schedule.policy = config::PolicyKind::kGreedy;
  const Plan greedy = plan_of(config);
  CHECK(fixed.peak_activations_bound == fixed.facts.peak_activations);
  for (std::int32_t r = 0; r < 2; ++r) {
    const auto& stages = greedy.facts.stages;
    CHECK(greedy.peak_activations_bound[Rank(r).index()] ==
          stages[static_cast<std::size_t>(r)].activation +
              stages[static_cast<std::size_t>(r) + 2].activation);
  }
}

TEST_CASE("plan: greedy that may hold more than the stated limit is refused") {
  config::Config config = config_of("auto", 2, 2);
  config.schedule.activation_limit = 4;
  CHECK(plan_of(config).peak_activations_bound == std::vector<std::int32_t>{4, 4});
  config.schedule.policy = config::PolicyKind::kGreedy;
  const std::string text = refusal_of(config);
  CHECK_MESSAGE(text.starts_with("schedule.activation_limit: rank "), text);
  CHECK_MESSAGE(contains(text, "the limit is 4; set policy: static"), text);
  config.schedule.activation_limit = 0;
  CHECK(plan_of(config).peak_activations_bound.size() == 2);
}

}  // namespace
}  // namespace headrace::actors
