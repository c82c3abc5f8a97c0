#include "tools/cli/schedule_model_cost.hpp"

#include "stages/layer.hpp"
#include "tools/cli/plan.hpp"

#include <algorithm>
#include <utility>

namespace headrace::cli {
namespace {

// The same run with another schedule; its own cut fits its own number of stages only.
config::Config with_schedule(config::Config config, const schedules::ScheduleSpec& spec) {
  if (config.pipeline.chunks != spec.chunks) config.stages.clear();
  config::ScheduleConfig schedule;  // the options of the configured schedule are its own
  schedule.name = spec.name;
  schedule.policy = config.schedule.policy;
  config.schedule = schedule;
  config.pipeline.chunks = spec.chunks;
  return config;
}

Result<std::vector<double>> stage_weights(const actors::Plan& plan) {
  std::vector<double> weights;
  double sum = 0;
  for (const auto& layers : plan.partition) {
    double flops = 0;
    for (const stages::LayerSpec& spec : layers) {
      const auto layer = stages::make_layer({.model = plan.model, .spec = spec});
      if (!layer.is_ok()) return layer.status();
      flops += (*layer)->forward_flops(plan.shape);
    }
    weights.push_back(flops);
    sum += flops;
  }
  for (double& weight : weights) weight *= static_cast<double>(weights.size()) / sum;
  return weights;
}

}  // namespace

Result<ModelCost> model_cost(const config::Config& config, const schedules::ScheduleSpec& spec) {
  ModelCost cost;
  const bool is_searched = spec.name == "auto";  // its order depends on the times, not yet known
  Result<actors::Plan> plan =
      is_searched
          ? Result<actors::Plan>(Status(
                StatusCode::kConfig,
                "its order depends on the times above; a run with it is sized by `config check`"))
          : actors::make_plan(with_schedule(config, spec));
  if (plan) {
    std::int64_t most = 0;
    for (const actors::RankMemory& memory : plan->memory) most = std::max(most, memory.total());
    cost.bytes_max = most;
  } else {
    // 1f1b and its interleaved form cut the model alike and ask for nothing else.
    schedules::ScheduleSpec plain = spec;
    plain.name = spec.chunks == 1 ? "1f1b" : "looped_bfs";
    cost.bytes_reason = plan.status().message();
    plan = actors::make_plan(with_schedule(config, plain));
    if (!plan.is_ok()) return plan.status();
  }
  Result<std::vector<double>> weights = stage_weights(*plan);
  if (!weights.is_ok()) return weights.status();
  cost.weights = *std::move(weights);
  return cost;
}

Result<ShareTimes> read_summary(const std::string& path, std::int32_t ranks) {
  const Result<std::string> text = read_text(path);
  if (!text) return text.status();
  const auto refuse = [&](const std::string& why) {
    return Status(StatusCode::kUsage, path + ": " + why +
                                          "; it must be what `headrace train … --summary FILE` "
                                          "wrote, with stage_seconds");
  };
  const Json summary = Json::parse(*text, nullptr, false);
  if (!summary.is_object()) return refuse("it is no JSON object");
  const auto stages = summary.find("stage_seconds");
  if (stages == summary.end() || !stages->is_array() || stages->empty())
    return refuse("it has no stage_seconds");
  ShareTimes share;
  double forward = 0;
  double input = 0;
  double weight = 0;
  for (const Json& stage : *stages) {
    for (const auto& [key, sum] : {std::pair<const char*, double*>{"F", &forward},
                                   std::pair<const char*, double*>{"I", &input},
                                   std::pair<const char*, double*>{"W", &weight}}) {
      if (!stage.is_object() || !stage.contains(key) || !stage[key].is_number() ||
          stage[key].get<double>() < 0)
        return refuse("an entry of stage_seconds has no number " + std::string(key));
      *sum += stage[key].get<double>();
    }
  }
  if (forward + input + weight <= 0) return refuse("all of stage_seconds is 0");
  share.times.forward = forward / ranks;
  share.times.backward_input = input / ranks;
  share.times.backward_weight = weight / ranks;
  share.times.backward = (input + weight) / ranks;
  share.unit = "s";
  share.origin = "measured, from " + path;
  return share;
}

}  // namespace headrace::cli
