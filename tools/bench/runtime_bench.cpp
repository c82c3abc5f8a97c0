// What the runtime itself costs: actions of empty layers.
#include "runtime/actors/train.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "tools/bench/models.hpp"
#include "tools/bench/probe_layers.hpp"
#include "tools/bench/series.hpp"

#include <benchmark/benchmark.h>

#include <vector>

namespace headrace::bench {
namespace {

constexpr int kRuns = 7;
constexpr std::int64_t kSteps = 200;
constexpr std::int64_t kWarmSteps = 20;

class StepClock : public actors::RunObserver {
 public:
  void on_step(const actors::StepRecord& record) override {
    const std::int64_t wall = monotonic_now_ns();
    const std::int64_t cpu = process_cpu_now_ns();
    if (record.step.value > kWarmSteps) {
      wall_us.push_back(static_cast<double>(wall - wall_ns_) * 1e-3);
      cpu_us.push_back(static_cast<double>(cpu - cpu_ns_) * 1e-3);
    }
    wall_ns_ = wall;
    cpu_ns_ = cpu;
  }
  std::vector<double> wall_us, cpu_us;

 private:
  std::int64_t wall_ns_ = 0, cpu_ns_ = 0;
};

void empty_layers(benchmark::State& state, std::int32_t ranks, config::PolicyKind policy) {
  actors::Plan plan = probe_plan(kEmptyLayer, {ranks, 64, 1, kSteps, false});
  plan.config.schedule.policy = policy;
  std::vector<double> wall, cpu;
  double actions = 0;  // F and B; sends, receives and the step's end are not counted
  bool bounded = true;
  for (auto _ : state) {
    StepClock clock;
    actors::RunOptions options;
    options.observer = &clock;
    const actors::RunResult result = actors::train(plan, options);
    HEADRACE_CHECK(result.status.is_ok(), result.status.message());
    actions =
        static_cast<double>(result.times[0].actions) / static_cast<double>(result.times[0].steps);
    wall.push_back(median(clock.wall_us) / actions);
    cpu.push_back(median(clock.cpu_us) / (actions * ranks));
    for (std::size_t r = 0; r < result.peak_activations.size(); ++r) {
      bounded = bounded && result.peak_activations[r] <= result.peak_activations_bound[r];
    }
    state.SetIterationTime(median(clock.wall_us) * 1e-6);
  }
  state.counters["cpu_us_per_action"] = median(cpu);
  state.counters["wall_us_per_action_and_rank"] = median(wall);
  state.counters["actions_per_rank_and_step"] = actions;
  state.counters["activations_within_bound"] = bounded ? 1 : 0;
}

BENCHMARK_CAPTURE(empty_layers, 4_ranks_static, 4, config::PolicyKind::kStatic)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(empty_layers, 4_ranks_greedy, 4, config::PolicyKind::kGreedy)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(empty_layers, 2_ranks_static, 2, config::PolicyKind::kStatic)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace headrace::bench
