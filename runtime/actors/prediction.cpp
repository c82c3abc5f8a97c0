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

}  // namespace

Prediction predict(const Plan& plan, std::span<const RankTimes> times, std::int32_t cores) {
  schedules::SimulationOptions options;
  options.stages.resize(static_cast<std::size_t>(plan.program.stages));
  options.step_end.resize(static_cast<std::size_t>(plan.program.ranks));
  std::vector<std::size_t> next_chunk(static_cast<std::size_t>(plan.program.ranks), 0);
  double work = 0;
  for (std::int32_t s = 0; s < plan.program.stages; ++s) {
    const std::size_t rank = plan.rank_of(StageIndex(s)).index();
    if (times.size() <= rank || times[rank].steps == 0) return {};
    const StageSeconds& seconds = times[rank].stages[next_chunk[rank]++];
    schedules::StageCost& cost = options.stages[static_cast<std::size_t>(s)];
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
