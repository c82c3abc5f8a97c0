#include "runtime/config/rules.hpp"

#include "runtime/config/schema.hpp"

#include <cstdint>
#include <utility>

namespace headrace::config {
namespace {

using Breaches = std::vector<RuleBreach>;

template <typename Integer>
std::string number(Integer value) {
  return std::to_string(value);
}

void breach(Breaches& breaches, std::string path, std::string message) {
  breaches.push_back({std::move(path), std::move(message)});
}

void check_attention(const ModelConfig& model, Breaches& breaches) {
  const std::string kind(to_string(model.kind));
  if (model.heads == 0) {
    breach(breaches, "model.heads", "required for " + kind + "; expected a divisor of the width");
    return;
  }
  if (model.width % model.heads != 0) {
    breach(breaches, "model.heads",
           "width = heads x head width: " + number(model.width) + " is not a multiple of " +
               number(model.heads));
    return;
  }
  if (model.heads % model.kv_heads != 0) {
    breach(breaches, "model.kv_heads",
           "heads = kv_heads x group: " + number(model.heads) + " is not a multiple of " +
               number(model.kv_heads));
  }
  const std::int32_t head_width = model.width / model.heads;
  if (model.kind == ModelKind::kLlama && head_width % 2 != 0) {
    breach(breaches, "model.heads",
           "rotary positions turn pairs, so width / heads must be even: " + number(model.width) +
               " / " + number(model.heads) + " = " + number(head_width));
  }
}

// A key that the chosen kind would ignore is refused, never ignored.
void check_unused_model_keys(const ModelConfig& model, Breaches& breaches) {
  const bool llama = model.kind == ModelKind::kLlama;
  const std::string kind(to_string(model.kind));
  if (model.kind == ModelKind::kMlp && (model.heads != 0 || model.kv_heads != 0)) {
    breach(breaches, "model.heads", "mlp has no attention; leave heads and kv_heads out");
  }
  if (model.kind == ModelKind::kGpt2 && model.kv_heads != model.heads) {
    breach(breaches, "model.kv_heads",
           "gpt2 has one key/value head per head; leave it out, or use kind llama");
  }
  if (!llama && model.rope_base != ModelConfig{}.rope_base) {
    breach(breaches, "model.rope_base", kind + " has no rotary positions; leave it out");
  }
  if (llama && model.gelu != ModelConfig{}.gelu) {
    breach(breaches, "model.gelu", "llama uses SwiGLU; leave it out");
  }
}

// Kinds that a user has added stand beside the model's blocks; stages/ knows their names.
bool is_block(const LayerRun& run) { return run.kind == "block"; }

std::string stage_path(std::size_t stage) { return "stages[" + number(stage) + "].layers"; }

// Layers never vanish: the blocks of all stages are the model's.
void check_block_sum(const Config& config, Breaches& breaches) {
  std::int64_t sum = 0;
  std::string terms;
  for (const StageConfig& stage : config.stages) {
    std::int64_t blocks = 0;
    for (const LayerRun& run : stage.layers) blocks += is_block(run) ? run.count : 0;
    sum += blocks;
    terms += (terms.empty() ? "" : " + ") + number(blocks);
  }
  if (sum == config.model.layers) return;
  breach(breaches, "stages",
         "the stages hold " + terms + " = " + number(sum) + " blocks, model.layers is " +
             number(config.model.layers) + "; make them equal");
}

void check_edge_layer(const Config& config, std::string_view kind, Breaches& breaches) {
  std::int64_t count = 0;
  std::size_t last_stage = 0;
  for (std::size_t s = 0; s < config.stages.size(); ++s) {
    for (const LayerRun& run : config.stages[s].layers) {
      if (run.kind != kind) continue;
      count += run.count;
      last_stage = s;
    }
  }
  if (count > 1) {
    breach(breaches, stage_path(last_stage),
           std::string(kind) + " stands " + number(count) + " times; a model has one");
  }
}

void check_stages(const Config& config, Breaches& breaches) {
  const PipelineConfig& pipeline = config.pipeline;
  const std::int64_t stages = std::int64_t{pipeline.ranks} * pipeline.chunks;
  const std::string product = "stages = ranks x chunks: " + number(pipeline.ranks) + " x " +
                              number(pipeline.chunks) + " = " + number(stages);
  if (config.stages.empty()) {
    // Embedding, norm and head are layers as well: a stage of one of them needs no block.
    if (stages > config.model.layers + 3) {
      breach(breaches, "pipeline.ranks",
             product + " are too many for " + number(config.model.layers) +
                 " layers; at most layers + 3 = " + number(config.model.layers + 3));
    }
    return;
  }
  if (static_cast<std::int64_t>(config.stages.size()) != stages) {
    breach(breaches, "stages", product + ", but the list has " + number(config.stages.size()));
    return;
  }
  for (std::size_t s = 0; s < config.stages.size(); ++s) {
    if (config.stages[s].layers.empty()) breach(breaches, stage_path(s), "a stage without layers");
  }
  check_block_sum(config, breaches);
  for (const std::string_view kind : {"embedding", "norm", "head"}) {
    check_edge_layer(config, kind, breaches);
  }
}

void check_ranks(const Config& config, Breaches& breaches) {
  if (config.run.device == DeviceType::kCuda)
    breach(breaches, "run.device", "this build has no CUDA");
  if (static_cast<std::int64_t>(config.ranks.size()) != config.pipeline.ranks) {
    breach(breaches, "ranks",
           "the list has " + number(config.ranks.size()) + " entries, pipeline.ranks is " +
               number(config.pipeline.ranks) + "; make them equal");
    return;
  }
  for (std::size_t r = 0; r < config.ranks.size(); ++r) {
    const std::string path = "ranks[" + number(r) + "]";
    if (config.ranks[r].process != 0) {
      breach(breaches, path + ".process",
             "this build has no runs over several processes; expected 0, found " +
                 number(config.ranks[r].process));
    }
    // Ranks that name no device take run.device, which has been refused already.
    if (config.ranks[r].device == DeviceType::kCuda && config.run.device != DeviceType::kCuda) {
      breach(breaches, path + ".device", "this build has no CUDA");
    }
  }
}

void check_batch(const Config& config, Breaches& breaches) {
  const std::int32_t size = config.batch.size;
  const std::int32_t micro = config.batch.microbatch_size;
  if (size % micro != 0) {
    const std::int64_t whole = size / micro;
    std::string remedy = number((whole + 1) * micro);
    if (whole > 0) remedy = number(whole * micro) + " or " + remedy;
    breach(breaches, "batch.size",
           "size = microbatches x microbatch_size has no whole solution: " + number(size) +
               " = M x " + number(micro) + " lies between M = " + number(whole) +
               " and M = " + number(whole + 1) + "; use a size of " + remedy);
    return;
  }
  const std::int32_t blocks = config.determinism.reduction_blocks;
  if ((size / micro) % blocks != 0) {
    breach(breaches, "determinism.reduction_blocks",
           "it must divide the microbatches: M = size / microbatch_size = " + number(size) + " / " +
               number(micro) + " = " + number(size / micro) + " is not a multiple of " +
               number(blocks));
  }
}

void check_schedule(const ScheduleConfig& schedule, Breaches& breaches) {
  if (schedule.file && schedule.name != kFileSchedule) {
    breach(breaches, "schedule.file",
           "schedule.name is '" + schedule.name +
               "' as well; a schedule comes from a name or from a "
               "file, leave one of them out");
  }
  if (!schedule.file && schedule.name == kFileSchedule) {
    breach(breaches, "schedule.name", "'file' is a schedule from schedule.file; set that key");
  }
  if (schedule.name == "auto") return;
  const std::string only =
      "only schedule.name: auto reads it, found '" + schedule.name + "'; leave it out";
  if (schedule.times) breach(breaches, "schedule.times", only);
  if (schedule.activation_limit != 0) breach(breaches, "schedule.activation_limit", only);
}

void check_optimizer(const OptimizerConfig& optimizer, Breaches& breaches) {
  const OptimizerConfig defaults;
  if (optimizer.kind == OptimizerKind::kAdamw && optimizer.momentum != defaults.momentum) {
    breach(breaches, "optimizer.momentum", "adamw has betas, no momentum; leave it out");
  }
  if (optimizer.kind == OptimizerKind::kSgd && optimizer.betas != defaults.betas) {
    breach(breaches, "optimizer.betas", "sgd has momentum, no betas; leave it out");
  }
  if (optimizer.kind == OptimizerKind::kSgd && optimizer.epsilon != defaults.epsilon) {
    breach(breaches, "optimizer.epsilon", "sgd has no epsilon; leave it out");
  }
}

void check_debug(const Config& config, Breaches& breaches) {
  const std::int64_t stages = std::int64_t{config.pipeline.ranks} * config.pipeline.chunks;
  const auto check = [&](const std::optional<FaultPoint>& point, const std::string& path) {
    if (!point || point->stage < stages) return;
    breach(breaches, path,
           "stage " + number(point->stage) + " does not exist; there are " + number(stages));
  };
  check(config.debug.nan_at, "debug.nan_at");
  check(config.debug.throw_at, "debug.throw_at");
}

void check_section(std::string_view section, const void* object, int index, Breaches& breaches) {
  for (const KeyInfo& key : keys()) {
    if (key.section != section) continue;
    const Value value = key.binding.get(object);
    std::string problem = range_problem(key, value);
    if (!problem.empty()) breach(breaches, key_path(key, index), std::move(problem));
  }
}

}  // namespace

void derive(Config& config) {
  ScheduleConfig& schedule = config.schedule;
  if (schedule.file && schedule.name == ScheduleConfig().name) schedule.name = kFileSchedule;
  ModelConfig& model = config.model;
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.hidden == 0) {
    constexpr std::int32_t kMultiple = 8;
    const std::int32_t gated = (8 * model.width + 2) / 3;
    model.hidden = model.kind == ModelKind::kLlama ? (gated + kMultiple - 1) / kMultiple * kMultiple
                                                   : 4 * model.width;
  }
  if (config.optimizer.decay_steps == 0) config.optimizer.decay_steps = config.run.steps;
  if (config.ranks.empty()) {
    RankConfig rank;
    rank.device = config.run.device;
    config.ranks.assign(static_cast<std::size_t>(config.pipeline.ranks), rank);
  }
}

std::vector<RuleBreach> check_rules(const Config& config) {
  Breaches breaches;
  if (config.model.kind != ModelKind::kMlp) check_attention(config.model, breaches);
  check_unused_model_keys(config.model, breaches);
  check_stages(config, breaches);
  check_ranks(config, breaches);
  check_batch(config, breaches);
  check_schedule(config.schedule, breaches);
  check_optimizer(config.optimizer, breaches);
  check_debug(config, breaches);
  return breaches;
}

std::vector<RuleBreach> check_ranges(const Config& config) {
  Breaches breaches;
  Config copy = config;
  for (const SectionInfo& section : sections()) {
    if (!section.is_list) check_section(section.name, section.object(copy), -1, breaches);
  }
  for (std::size_t s = 0; s < config.stages.size(); ++s) {
    check_section("stages", &config.stages[s], static_cast<int>(s), breaches);
  }
  for (std::size_t r = 0; r < config.ranks.size(); ++r) {
    check_section("ranks", &config.ranks[r], static_cast<int>(r), breaches);
  }
  return breaches;
}

}  // namespace headrace::config
