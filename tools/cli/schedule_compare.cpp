#include "tools/cli/schedule_compare.hpp"

#include "tools/cli/schedule_facts.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace headrace::cli {
namespace {

// The wanted number of chunks if the schedule takes it, else the fewest it takes. The search takes
// any: it is asked with one chunk and with the wanted number.
std::vector<std::int32_t> chunks_for(const std::string& name, std::int32_t wanted) {
  if (name == "auto")
    return wanted == 1 ? std::vector<std::int32_t>{1} : std::vector<std::int32_t>{1, wanted};
  return {takes_chunks(name, wanted) ? wanted : fewest_chunks(name)};
}

// See [Note: fair times].
schedules::StageCost scaled(const ActionTimes& times, double factor) {
  return {times.forward * factor, times.backward_input * factor, times.backward_weight * factor};
}

std::vector<schedules::StageCost> stage_costs(const ActionTimes& times, std::int32_t ranks,
                                              std::int32_t stages,
                                              const std::vector<double>& weights) {
  const double share = static_cast<double>(ranks) / static_cast<double>(stages);
  std::vector<schedules::StageCost> costs;
  for (std::int32_t s = 0; s < stages; ++s)
    costs.push_back(
        scaled(times, share * (weights.empty() ? 1 : weights[static_cast<std::size_t>(s)])));
  return costs;
}

Result<CompareRow> compare_one(const CompareRequest& request, const std::string& name,
                               std::int32_t chunks) {
  schedules::ScheduleSpec spec;
  spec.name = name;
  spec.ranks = request.ranks;
  spec.microbatches = request.microbatches;
  spec.chunks = chunks;
  ModelCost model;
  if (request.config) {
    Result<ModelCost> cost = model_cost(*request.config, spec);
    if (!cost.is_ok()) return cost.status();
    model = *std::move(cost);
  }
  if (name == "auto") {
    spec.search = request.search;
    spec.search.stages =
        stage_costs(request.share.times, spec.ranks, spec.ranks * spec.chunks, model.weights);
    spec.search.hop = request.hop;
    spec.search.activation_limit = request.limit * spec.chunks;
  }
  const Result<schedules::Program> program = schedules::make_program(spec);
  if (!program) return program.status();
  const Result<schedules::ProgramFacts> facts = schedules::validate(*program);
  if (!facts) return facts.status();
  const Result<schedules::StageCost> cost = stage_cost(*program, request.share.times);
  if (!cost) return cost.status();
  ActionTimes times = request.share.times;
  times.backward_input = cost->backward_input;
  times.backward_weight = cost->backward_weight;
  schedules::SimulationOptions options;
  options.stages = stage_costs(times, program->ranks, program->stages, model.weights);
  options.hop = request.hop;
  options.gradient_after_input = request.gradient_after_input;
  const schedules::Simulation simulation = schedules::simulate(*program, options);

  CompareRow row;
  row.name = name;
  row.chunks = program->chunks;
  row.makespan = simulation.makespan;
  row.bubble_global = simulation.bubble_global;
  row.bubble_span = simulation.bubble_span;
  for (const std::int32_t peak : facts->peak_activations) row.peak = std::max(row.peak, peak);
  row.peak_share = static_cast<double>(row.peak) / static_cast<double>(program->stages);
  row.hops = hops_per_microbatch(*program);
  row.replicas = replicas_of(*program);
  row.bytes_max = model.bytes_max;
  row.bytes_reason = model.bytes_reason;
  row.over_limit = request.limit > 0 && row.peak_share * request.ranks > request.limit + 1e-9;
  return row;
}

}  // namespace

Comparison compare_schedules(const CompareRequest& request) {
  Comparison comparison;
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    const std::string name(info.name);
    const auto& asked = request.names;
    if (!asked.empty() && std::find(asked.begin(), asked.end(), name) == asked.end()) continue;
    if (info.forward_only) {
      comparison.absent.push_back({name, "it trains nothing: forwards only"});
      continue;
    }
    for (const std::int32_t chunks : chunks_for(name, request.chunks)) {
      Result<CompareRow> row = compare_one(request, name, chunks);
      if (row.is_ok())
        comparison.rows.push_back(*std::move(row));
      else
        comparison.absent.push_back({name, row.status().message()});
    }
  }
  std::sort(comparison.rows.begin(), comparison.rows.end(), [](const auto& a, const auto& b) {
    return std::tie(a.makespan, a.peak_share, a.name) < std::tie(b.makespan, b.peak_share, b.name);
  });
  return comparison;
}

}  // namespace headrace::cli
