#include "runtime/actors/plan.hpp"

#include "runtime/actors/program_source.hpp"
#include "runtime/base/check.hpp"
#include "runtime/comm/boundary.hpp"
#include "schedules/passes.hpp"

#include <algorithm>
#include <cstdio>

namespace headrace::actors {
namespace {

using stages::LayerSpec;

stages::ModelKind to_model_kind(config::ModelKind kind) {
  switch (kind) {
    case config::ModelKind::kGpt2:
      return stages::ModelKind::kGpt2;
    case config::ModelKind::kLlama:
      return stages::ModelKind::kLlama;
    case config::ModelKind::kMlp:
      return stages::ModelKind::kMlp;
  }
  return stages::ModelKind::kGpt2;
}

stages::ModelSpec to_model(const config::Config& config) {
  stages::ModelSpec model;
  model.kind = to_model_kind(config.model.kind);
  model.layers = config.model.layers;
  model.width = config.model.width;
  model.heads = config.model.heads;
  model.kv_heads = config.model.kv_heads;
  model.hidden = config.model.hidden;
  model.context = config.model.context;
  model.vocabulary = config.model.vocabulary.size;
  model.dropout = static_cast<float>(config.model.dropout);
  model.tied = config.model.tied;
  model.activation = config.model.gelu == config::GeluKind::kExact ? kernels::Activation::kGeluExact
                                                                   : kernels::Activation::kGeluTanh;
  model.rope_base = config.model.rope_base;
  model.precision = config.run.precision == config::Precision::kBf16 ? stages::Precision::kBf16
                                                                     : stages::Precision::kF32;
  model.recompute = config.run.recompute == config::RecomputeKind::kBlock;
  model.seed = config.run.seed;
  return model;
}

stages::OptimizerSpec to_optimizer(const config::Config& config) {
  const config::OptimizerConfig& from = config.optimizer;
  stages::OptimizerSpec spec;
  spec.kind = from.kind == config::OptimizerKind::kSgd ? stages::OptimizerKind::kSgd
                                                       : stages::OptimizerKind::kAdamw;
  spec.learning_rate = from.learning_rate;
  spec.beta1 = from.betas[0];
  spec.beta2 = from.betas[1];
  spec.epsilon = from.epsilon;
  spec.momentum = from.momentum;
  spec.weight_decay = from.weight_decay;
  spec.clip_norm = from.clip_norm;
  spec.warmup_steps = from.warmup_steps;
  spec.decay_steps = from.decay_steps;
  spec.final_fraction = from.final_learning_rate_fraction;
  spec.decay = from.decay == config::DecayKind::kConstant ? stages::DecayKind::kConstant
               : from.decay == config::DecayKind::kLinear ? stages::DecayKind::kLinear
                                                          : stages::DecayKind::kCosine;
  return spec;
}

Result<stages::Partition> partition_of(const config::Config& config, const stages::ModelSpec& model,
                                       const stages::MicrobatchShape& shape, std::int32_t stages) {
  if (config.stages.empty()) return stages::automatic_partition(model, shape, stages);
  std::vector<stages::StageRequest> requests;
  for (const config::StageConfig& stage : config.stages) {
    stages::StageRequest request;
    request.frozen = stage.frozen;
    for (const config::LayerRun& run : stage.layers)
      request.layers.push_back({run.kind, run.count});
    requests.push_back(std::move(request));
  }
  return stages::requested_partition(model, requests);
}

// What the search behind `auto` balances, where the config states no times.
Result<std::vector<schedules::StageCost>> costs_of(const config::Config& config, const Plan& plan) {
  std::vector<schedules::StageCost> costs;
  if (config.schedule.name != "auto" || config.schedule.times) return costs;
  const std::int32_t stages = config.pipeline.ranks * config.pipeline.chunks;
  const auto partition = partition_of(config, plan.model, plan.shape, stages);
  if (!partition) return partition.status();
  const auto work = stages::stage_work(plan.model, plan.shape, *partition);
  if (!work) return work.status();
  double most = 0;
  for (const stages::StageWork& stage : *work) most = std::max(most, stage.forward);
  const auto cost = [most](double flops) { return std::max(flops / most, 1e-3); };
  for (const stages::StageWork& stage : *work) {
    costs.push_back({cost(stage.forward), cost(stage.backward_input), cost(stage.backward_weight)});
  }
  return costs;
}

bool trains(const std::vector<LayerSpec>& layers) {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return !layer.frozen; });
}

bool is_frozen(const Plan& plan, std::string_view kind) {
  for (const auto& stage : plan.partition) {
    for (const LayerSpec& layer : stage) {
      if (layer.kind == kind) return layer.frozen;
    }
  }
  return false;
}

Status check_frozen_tied(const Plan& plan) {
  if (!plan.model.tied || is_frozen(plan, "embedding") == is_frozen(plan, "head")) {
    return Status::ok();
  }
  return {
      StatusCode::kConfig,
      "stages: model.tied is true, but only one of embedding and head is frozen; they share one "
      "matrix, so freeze both or neither, or set model.tied: false"};
}

void find_flows(Plan& plan) {
  plan.gradient_flows.assign(plan.partition.size(), false);
  bool below = false;
  for (std::size_t s = 0; s < plan.partition.size(); ++s) {
    below = below || trains(plan.partition[s]);
    plan.gradient_flows[s] = below;
  }
}

void bound_activations(Plan& plan) {
  plan.peak_activations_bound = plan.facts.peak_activations;
  if (plan.config.schedule.policy != config::PolicyKind::kGreedy) return;
  for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
    std::int32_t& bound = plan.peak_activations_bound[Rank(r).index()];
    bound = 0;
    for (const HeldStage& held : stages_of(plan, Rank(r))) {
      bound += plan.facts.stages[held.stage.index()].activation;
    }
  }
}

// The search keeps its limit in program order; greedy may fill the frames of every stage at once.
Status check_activation_limit(const Plan& plan) {
  const std::int32_t limit = plan.config.schedule.activation_limit;
  if (limit == 0) return Status::ok();
  const auto& bounds = plan.peak_activations_bound;
  const auto most = std::max_element(bounds.begin(), bounds.end());
  if (*most <= limit) return Status::ok();
  return {StatusCode::kConfig,
          "schedule.activation_limit: rank " + std::to_string(most - bounds.begin()) +
              " may hold " + std::to_string(*most) +
              " stage activations under policy: greedy, but the limit is " + std::to_string(limit) +
              "; set policy: static, or raise the limit"};
}

// What Pipeline allocates beside the slots between stages: see its make_devices and
// make_boundaries.
void measure_shared(Plan& plan) {
  const auto tokens = static_cast<std::int64_t>(plan.config.batch.size) * plan.shape.positions *
                      static_cast<std::int64_t>(sizeof(std::int32_t));
  plan.memory.front().boundaries += 2 * tokens;
  plan.memory.back().boundaries += 2 * tokens;
  if (!plan.tied_exchange) return;
  const std::int64_t tied =
      plan.model.vocabulary * plan.model.width * static_cast<std::int64_t>(sizeof(float));
  plan.memory.front().boundaries += 2 * (tied + comm::kSlotHeaderBytes);
}

Status measure_stage(Plan& plan, const HeldStage& held, RankMemory& memory) {
  const auto options = stage_options(plan, held.stage, held.replica);
  auto bytes = stages::stage_bytes(options);
  if (!bytes) return bytes.status();
  const std::int64_t slot = comm::kSlotHeaderBytes + stages::boundary_bytes(plan.model, plan.shape);
  memory.parameters += bytes->parameters;
  memory.gradients += bytes->gradients;
  memory.optimizer += bytes->optimizer;
  memory.stash += bytes->stash * options.frames.stash;
  memory.weight_inputs += bytes->weight_forward * options.frames.activation +
                          bytes->weight_backward * options.frames.weight_inputs;
  memory.workspace = std::max(memory.workspace, bytes->workspace);
  const std::size_t s = held.stage.index();
  if (s > 0) memory.boundaries += slot * plan.facts.boundaries[s - 1].activation;
  if (s < plan.facts.boundaries.size()) {
    memory.boundaries += slot * plan.facts.boundaries[s].gradient;
  }
  for (std::int32_t d = 0; d < plan.replicas(); ++d) {
    if (d == held.replica.value) continue;
    auto other = stages::stage_bytes(stage_options(plan, held.stage, ReplicaIndex(d)));
    if (!other) return other.status();
    memory.boundaries += comm::kSlotHeaderBytes + other->roots;
  }
  return Status::ok();
}

Status measure(Plan& plan) {
  plan.memory.assign(static_cast<std::size_t>(plan.program.ranks), {});
  for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
    for (const HeldStage& held : stages_of(plan, Rank(r))) {
      HEADRACE_RETURN_IF_ERROR(measure_stage(plan, held, plan.memory[Rank(r).index()]));
    }
  }
  return Status::ok();
}

// Both replicas fold one tree, so that each needs whole blocks of its own.
Status check_replicas(const Plan& plan) {
  const std::int32_t blocks = plan.config.determinism.reduction_blocks;
  if (blocks % plan.replicas() == 0) return Status::ok();
  const std::string replicas = std::to_string(plan.replicas());
  return {StatusCode::kConfig,
          "determinism.reduction_blocks: schedule " + plan.program.schedule + " keeps " + replicas +
              " replicas of every stage, each with its own share of the gradient's blocks, so the "
              "blocks must be a multiple of " +
              replicas + " that divides the " + std::to_string(plan.microbatches()) +
              " microbatches; found " + std::to_string(blocks) + ". Set it to " + replicas};
}

bool holds_both_ends(const Plan& plan, Rank rank) {
  const auto held = stages_of(plan, rank);
  return !held.empty() && held.front().stage.value == 0 &&
         held.back().stage.value + 1 == plan.program.stages;
}

// Two rules can only be seen broken where layouts differ in them: sums finished aside where weight
// gradients are deferred, and a fold that follows the rank count.
BrokenRule rule_broken_in(const Plan& plan, const schedules::StagePeaks& peaks) {
  if (plan.broken_rule == BrokenRule::kFinishedSums && peaks.weight_inputs <= 1) {
    return BrokenRule::kNone;
  }
  if (plan.broken_rule == BrokenRule::kTreeShape &&
      (plan.program.ranks <= 2 || plan.replicas() > 1)) {
    return BrokenRule::kNone;
  }
  return plan.broken_rule;
}

std::string mebibytes(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(bytes) / (1024.0 * 1024.0));
  return text;
}

// A key whose feature this build lacks is refused, never ignored.
Status check_features(const config::Config& config) {
  if (config.data.validation) {
    return {StatusCode::kConfig, "data.validation: this build has no evaluation; leave it out"};
  }
  if (config.determinism.accept_other_numerics) {
    return {StatusCode::kConfig,
            "determinism.accept_other_numerics: this build has no checkpoints that could come from "
            "other numerics; leave it out"};
  }
  return Status::ok();
}

}  // namespace

Result<Plan> make_plan(const config::Config& config, BrokenRule broken_rule) {
  HEADRACE_RETURN_IF_ERROR(check_features(config));
  Plan plan;
  plan.broken_rule = broken_rule;
  plan.config = config;
  plan.model = to_model(config);
  plan.shape = {config.batch.microbatch_size, config.model.context};
  plan.optimizer = to_optimizer(config);
  const auto costs = costs_of(config, plan);
  if (!costs) return costs.status();
  auto program = make_run_program(config, *costs, broken_rule);
  if (!program) return program.status();
  auto partition = partition_of(config, plan.model, plan.shape, program->stages);
  if (!partition) return partition.status();
  plan.partition = *std::move(partition);
  HEADRACE_RETURN_IF_ERROR(check_frozen_tied(plan));
  // A frozen matrix has no gradient to exchange.
  const bool sums_tied = plan.model.tied && !is_frozen(plan, "embedding");
  plan.program = schedules::with_step_end(*std::move(program), {.tied = sums_tied});
  // Layers keep their order, so that the embedding is on stage 0 and the head on the last.
  plan.tied_exchange = sums_tied && !holds_both_ends(plan, plan.rank_of(StageIndex(0)));
  HEADRACE_RETURN_IF_ERROR(check_replicas(plan));
  auto facts = schedules::validate(plan.program);
  if (!facts) return facts.status();
  plan.facts = *std::move(facts);
  find_flows(plan);
  bound_activations(plan);
  HEADRACE_RETURN_IF_ERROR(check_activation_limit(plan));
  HEADRACE_RETURN_IF_ERROR(measure(plan));
  measure_shared(plan);
  return plan;
}

std::vector<HeldStage> stages_of(const Plan& plan, Rank rank) {
  std::vector<HeldStage> held;
  for (std::int32_t s = 0; s < plan.program.stages; ++s) {
    for (std::int32_t d = 0; d < plan.replicas(); ++d) {
      if (plan.rank_of(StageIndex(s), ReplicaIndex(d)) == rank) {
        held.push_back({StageIndex(s), ReplicaIndex(d)});
      }
    }
  }
  return held;
}

stages::StageOptions stage_options(const Plan& plan, StageIndex stage, ReplicaIndex replica) {
  const schedules::StagePeaks& peaks = plan.facts.stages[stage.index()];
  stages::StageOptions options;
  options.model = plan.model;
  options.stage = stage;
  options.layers = plan.partition[stage.index()];
  options.shape = plan.shape;
  options.microbatches = plan.program.microbatches;
  options.reduction_blocks = plan.config.determinism.reduction_blocks;
  options.replica = replica;
  options.replicas = plan.replicas();
  options.frames = {peaks.stash, peaks.activation, std::max(1, peaks.weight_inputs)};
  options.optimizer = plan.optimizer;
  options.training = true;
  options.input_gradient = stage.value > 0 && plan.gradient_flows[stage.index() - 1];
  options.broken_rule = rule_broken_in(plan, peaks);
  return options;
}

std::string describe(const Plan& plan) {
  std::string text = "partition\n";
  for (std::size_t s = 0; s < plan.partition.size(); ++s) {
    const StageIndex stage(static_cast<std::int32_t>(s));
    text +=
        "  stage " + std::to_string(s) + " on rank " + std::to_string(plan.rank_of(stage).value);
    for (std::int32_t d = 1; d < plan.replicas(); ++d) {
      text += " and " + std::to_string(plan.rank_of(stage, ReplicaIndex(d)).value);
    }
    text += ": " + stages::to_string(plan.partition[s]) + '\n';
  }
  text += "memory per rank in MiB\n";
  char line[192];
  std::snprintf(line, sizeof line, "  %4s %10s %10s %10s %10s %10s %10s %10s %10s\n", "rank",
                "weights", "gradients", "optimizer", "boundary", "stash", "w-inputs", "workspace",
                "total");
  text += line;
  for (std::size_t r = 0; r < plan.memory.size(); ++r) {
    const RankMemory& m = plan.memory[r];
    std::snprintf(line, sizeof line, "  %4zu %10s %10s %10s %10s %10s %10s %10s %10s\n", r,
                  mebibytes(m.parameters).c_str(), mebibytes(m.gradients).c_str(),
                  mebibytes(m.optimizer).c_str(), mebibytes(m.boundaries).c_str(),
                  mebibytes(m.stash).c_str(), mebibytes(m.weight_inputs).c_str(),
                  mebibytes(m.workspace).c_str(), mebibytes(m.total()).c_str());
    text += line;
  }
  text += "parameters " + std::to_string(stages::parameter_count(plan.model)) + '\n';
  return text;
}

}  // namespace headrace::actors
