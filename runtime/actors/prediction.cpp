#include "runtime/actors/prediction.hpp"

#include "schedules/simulator.hpp"

#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

double mean(double sum, std::int64_t count) {
  return count > 0 ? sum / static_cast<double>(count) : 0.0;
}

// A rank publishes its input gradient when I is done, before it begins W (B is I, then W), so the
// rank below does not wait for the whole B. The simulator's own B is released at its end.
schedules::Program with_split_backward(schedules::Program program) {
  using schedules::ActionKind;
  for (auto& actions : program.actions) {
    std::vector<schedules::Action> split;
    for (const schedules::Action& action : actions) {
      split.push_back(action);
      if (action.kind != ActionKind::kBackward) continue;
      split.back().kind = ActionKind::kBackwardInput;
      split.push_back(action);
      split.back().kind = ActionKind::kBackwardWeight;
    }
    actions = std::move(split);
  }
  return program;
}

// [stage] over all its replicas; empty when a rank has measured nothing.
std::vector<StageSeconds> seconds_of_stages(const Plan& plan, std::span<const RankTimes> times) {
  std::vector<StageSeconds> sums(static_cast<std::size_t>(plan.program.stages));
  for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
    const std::size_t rank = Rank(r).index();
    if (times.size() <= rank || times[rank].steps == 0) return {};
    const std::vector<HeldStage> held = stages_of(plan, Rank(r));
    for (std::size_t chunk = 0; chunk < held.size(); ++chunk) {
      const StageSeconds& from = times[rank].stages[chunk];
      StageSeconds& sum = sums[held[chunk].stage.index()];
      sum.forward += from.forward, sum.forwards += from.forwards;
      sum.backward_input += from.backward_input, sum.backward_inputs += from.backward_inputs;
      sum.backward_weight += from.backward_weight, sum.backward_weights += from.backward_weights;
    }
  }
  return sums;
}

}  // namespace

Prediction predict(const Plan& plan, std::span<const RankTimes> times, std::int32_t cores) {
  schedules::SimulationOptions options;
  options.stages.resize(static_cast<std::size_t>(plan.program.stages));
  options.step_end.resize(static_cast<std::size_t>(plan.program.ranks));
  double work = 0;
  const std::vector<StageSeconds> measured = seconds_of_stages(plan, times);
  if (measured.empty()) return {};
  for (std::size_t s = 0; s < measured.size(); ++s) {
    const StageSeconds& seconds = measured[s];
    schedules::StageCost& cost = options.stages[s];
    cost.forward = mean(seconds.forward, seconds.forwards);
    cost.backward_input = mean(seconds.backward_input, seconds.backward_inputs);
    cost.backward_weight = mean(seconds.backward_weight, seconds.backward_weights);
    work += cost.forward + cost.backward_input + cost.backward_weight;
  }
  if (work <= 0) return {};
  for (std::size_t r = 0; r < options.step_end.size(); ++r) {
    options.step_end[r] = mean(times[r].step_end, times[r].steps);
  }
  options.cores = cores < plan.program.ranks ? cores : 0;
  const schedules::Simulation simulation =
      schedules::simulate(with_split_backward(plan.program), options);
  return {simulation.bubble_global, simulation.makespan};
}

}  // namespace headrace::actors
