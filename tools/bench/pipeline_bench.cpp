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

#include <future>
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

// The schedule with stated costs on every stage and a core per rank, as the runtime plays it:
// a gradient leaves before its W.
actors::Prediction predict_stated(const actors::Plan& plan, const schedules::StageCost& cost) {
  actors::RankTimes times;
  times.steps = 1;
  times.stages = {{cost.forward, cost.backward_input, cost.backward_weight, 1, 1, 1}};
  const std::vector<actors::RankTimes> ranks(static_cast<std::size_t>(plan.program.ranks), times);
  return actors::predict(plan, ranks, plan.program.ranks);
}

// What this machine allows: one rank's step alone against two side by side.
double core_scaling(const actors::Plan& plan) {
  StageStep first(plan), second(plan);
  first.run();
  second.run();
  const double alone = first.run();
  auto other = std::async(std::launch::async, [&] { return second.run(); });
  const double left = first.run();
  const double right = other.get();
  return alone / (left > right ? left : right);
}

void two_ranks(benchmark::State& state, bool bf16) {
  const Layout one{1, 8, 1, 4, bf16};
  Layout two = one;
  two.ranks = 2;
  const actors::Plan plan_one = gpt_plan(kTargetGpt, one);
  const actors::Plan plan_two = gpt_plan(kTargetGpt, two);
  const double bubble = predict_stated(plan_two, {}).bubble_global;
  const double whole = schedules::simulate(plan_two.program, {}).bubble_global;
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
  state.counters["schedule_bubble_of_whole_backwards"] = whole;
  state.counters["of_limit_of_whole_backwards"] = median(speedups) / (2 * (1 - whole));
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
  const double nominal =
      predict_stated(plan, {kSleepForwardNs * 1e-9, kSleepInputNs * 1e-9, kSleepWeightNs * 1e-9})
          .step_seconds;
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

// Ranks whose microbatches differ in length: what greedy gains by not waiting for the next in line.
void greedy_against_static(benchmark::State& state, const char* layer, const char* schedule,
                           std::int32_t chunks) {
  actors::Plan plan = probe_plan(layer, {4, 16, 1, 4, false, schedule, chunks});
  for (config::RankConfig& rank : plan.config.ranks) rank.threads = 2;
  std::vector<double> gains;
  for (auto _ : state) {
    plan.config.schedule.policy = config::PolicyKind::kStatic;
    const double in_order = median(step_seconds(run(plan)));
    plan.config.schedule.policy = config::PolicyKind::kGreedy;
    const double greedy = median(step_seconds(run(plan)));
    gains.push_back(in_order / greedy);
    state.SetIterationTime(greedy);
  }
  state.counters["static_over_greedy"] = median(gains);
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

BENCHMARK_CAPTURE(greedy_against_static, uneven_1f1b, kUnevenLayer, "1f1b", 1)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
// One rank is slow at a time, drawn at random: weight gradients fill the waits of the others.
BENCHMARK_CAPTURE(greedy_against_static, slow_zb_h1, kSlowLayer, "zb_h1", 1)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(greedy_against_static, slow_interleaved_zb, kSlowLayer, "interleaved_zb", 2)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace::bench
