// Two ranks against one, and measured step times against the simulator's.
#include "runtime/actors/prediction.hpp"
#include "runtime/actors/train.hpp"
#include "runtime/base/check.hpp"
#include "schedules/simulator.hpp"
#include "tools/bench/models.hpp"
#include "tools/bench/probe_layers.hpp"
#include "tools/bench/series.hpp"
#include "tools/bench/stage_step.hpp"

#include <benchmark/benchmark.h>

#include <thread>
#include <vector>

namespace headrace::bench {
namespace {

constexpr int kRuns = 5;

actors::RunResult run(const actors::Plan& plan) {
  actors::RunResult result = actors::train(plan);
  HEADRACE_CHECK(result.status.is_ok(), result.status.message());
  return result;
}

// Without the first step, which makes primitives and touches memory.
std::vector<double> step_seconds(const actors::RunResult& result) {
  std::vector<double> seconds;
  for (std::size_t i = 1; i < result.steps.size(); ++i) seconds.push_back(result.steps[i].seconds);
  return seconds;
}

double schedule_bubble(const actors::Plan& plan) {
  return schedules::simulate(plan.program, {}).bubble_global;
}

// What this machine allows: one rank's step alone against two side by side.
double core_scaling(const actors::Plan& plan) {
  StageStep first(plan), second(plan);
  first.run();
  second.run();
  const double alone = first.run();
  double left = 0, right = 0;
  std::thread other([&] { right = second.run(); });
  left = first.run();
  other.join();
  return alone / (left > right ? left : right);
}

void two_ranks(benchmark::State& state, bool bf16) {
  const Layout one{1, 8, 1, 4, bf16};
  Layout two = one;
  two.ranks = 2;
  const actors::Plan plan_one = gpt_plan(kTargetGpt, one);
  const actors::Plan plan_two = gpt_plan(kTargetGpt, two);
  const double bubble = schedule_bubble(plan_two);
  std::vector<double> speedups, efficiencies, errors, bubbles, predicted, scalings;
  for (auto _ : state) {
    const double alone = median(step_seconds(run(plan_one)));
    const actors::RunResult result = run(plan_two);
    const std::vector<double> seconds = step_seconds(result);
    const double together = median(seconds);
    speedups.push_back(alone / together);
    efficiencies.push_back(speedups.back() / (2 * (1 - bubble)));
    errors.push_back(mean(seconds) / result.step_seconds_predicted - 1);
    bubbles.push_back(result.steps.back().bubble);
    predicted.push_back(result.bubble_predicted);
    scalings.push_back(core_scaling(plan_one));
    state.SetIterationTime(together);
  }
  state.counters["speedup"] = median(speedups);
  state.counters["schedule_bubble"] = bubble;
  state.counters["of_schedule_limit"] = median(efficiencies);
  state.counters["measured_over_predicted_minus_1"] = median(errors);
  state.counters["bubble_measured"] = median(bubbles);
  state.counters["bubble_predicted"] = median(predicted);
  state.counters["two_steps_side_by_side"] = median(scalings);
  state.counters["of_schedule_and_machine_limit"] = median(efficiencies) / median(scalings);
}

// Four ranks that sleep: the schedule without the noise and the limit of two cores.
void four_sleeping_ranks(benchmark::State& state) {
  actors::Plan plan = probe_plan(kSleepLayer, {4, 8, 1, 8, false});
  // With two threads a rank charges wall time, and a sleep uses no CPU time.
  for (config::RankConfig& rank : plan.config.ranks) rank.threads = 2;
  schedules::SimulationOptions options;
  options.stages = {{kSleepForwardNs * 1e-9, kSleepInputNs * 1e-9, kSleepWeightNs * 1e-9}};
  const double nominal = schedules::simulate(plan.program, options).makespan;
  std::vector<double> against_nominal, against_measured;
  for (auto _ : state) {
    const actors::RunResult result = run(plan);
    const std::vector<double> seconds = step_seconds(result);
    const double predicted = actors::predict(plan, result.times, 4).step_seconds;
    against_nominal.push_back(median(seconds) / nominal - 1);
    against_measured.push_back(mean(seconds) / predicted - 1);
    state.SetIterationTime(median(seconds));
  }
  state.counters["step_seconds_of_stated_sleeps"] = nominal;
  state.counters["measured_over_stated_minus_1"] = median(against_nominal);
  state.counters["measured_over_predicted_minus_1"] = median(against_measured);
}

BENCHMARK_CAPTURE(two_ranks, fp32, false)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(two_ranks, bf16, true)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(four_sleeping_ranks)->Iterations(kRuns)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace::bench
