// The plan of a run: everything static, decided and checked before step 1.
//
// What it is for: config -> model -> partition -> schedule -> program -> facts -> bytes per rank.
// Both `headrace config check` and `headrace train` start here. What it does not do: allocate, read
// data or spawn. Thread rule: a value; free functions are pure but for a schedule file they read.
#pragma once

#include "runtime/base/broken_rule.hpp"
#include "runtime/base/status.hpp"
#include "runtime/config/config.hpp"
#include "schedules/program.hpp"
#include "schedules/validator.hpp"
#include "stages/model.hpp"
#include "stages/optimizer.hpp"
#include "stages/partition.hpp"
#include "stages/stage.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::actors {

// Bytes one rank needs, by use.
struct RankMemory {
  std::int64_t parameters = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t boundaries = 0;     // slots it receives into, tied and root slots, token buffers
  std::int64_t stash = 0;          // F .. I
  std::int64_t weight_inputs = 0;  // F or I .. W
  std::int64_t workspace = 0;
  [[nodiscard]] std::int64_t total() const {
    return parameters + gradients + optimizer + boundaries + stash + weight_inputs + workspace;
  }
};

struct Plan {
  config::Config config;
  stages::ModelSpec model;
  stages::MicrobatchShape shape;
  stages::OptimizerSpec optimizer;
  stages::Partition partition;  // [stage]
  schedules::Program program;   // compute actions and the step's end, per rank
  schedules::ProgramFacts facts;
  std::vector<bool> gradient_flows;  // [stage s] whether s+1 sends s a gradient: something at or
                                     // below s trains
  bool tied_exchange = false;        // tied ends on different ranks
  std::vector<RankMemory> memory;    // [rank]
  // [rank] most stage activations held at once: the program's peak; greedy may fill every stage's
  // frames.
  std::vector<std::int32_t> peak_activations_bound;
  BrokenRule broken_rule = BrokenRule::kNone;

  // How often every stage exists: 2 under bidirectional placement. Replica d computes the d-th of
  // equal runs of microbatches.
  [[nodiscard]] std::int32_t replicas() const {
    return program.placement == schedules::Placement::kBidirectional ? 2 : 1;
  }
  [[nodiscard]] Rank rank_of(StageIndex stage, ReplicaIndex replica = ReplicaIndex(0)) const {
    return program.rank_of(stage,
                           MicrobatchIndex(replica.value * program.microbatches / replicas()));
  }
  [[nodiscard]] std::int32_t microbatches() const { return program.microbatches; }
};

// A stage as it lives on one rank.
struct HeldStage {
  StageIndex stage{0};
  ReplicaIndex replica{0};
};
// In ascending order of stages: the chunks of the rank.
[[nodiscard]] std::vector<HeldStage> stages_of(const Plan& plan, Rank rank);

// kConfig when anything does not fit together.
[[nodiscard]] Result<Plan> make_plan(const config::Config& config,
                                     BrokenRule broken_rule = BrokenRule::kNone);

// Options of one stage of the plan, without device, stream and workspace.
[[nodiscard]] stages::StageOptions stage_options(const Plan& plan, StageIndex stage,
                                                 ReplicaIndex replica = ReplicaIndex(0));

// Partition and memory per rank, for people.
[[nodiscard]] std::string describe(const Plan& plan);

}  // namespace headrace::actors
