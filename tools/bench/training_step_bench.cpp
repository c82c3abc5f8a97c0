// The training step of one rank on one thread against what its products alone would take.
#include "tools/bench/gemm_rate.hpp"
#include "tools/bench/models.hpp"
#include "tools/bench/series.hpp"
#include "tools/bench/stage_step.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <vector>

namespace headrace::bench {
namespace {

constexpr int kRuns = 7;
constexpr int kRateTries = 5;
constexpr Layout kLayout{1, 8, 4, 1, false};

// The up-projection of one microbatch's MLP: the largest product of the step.
GemmShape reference_shape(const actors::Plan& plan) {
  GemmShape shape;
  shape.rows = plan.shape.rows();
  shape.cols = plan.model.hidden;
  shape.inner = plan.model.width;
  shape.transpose_b = true;
  if (plan.model.precision == stages::Precision::kBf16) shape.in = kernels::DType::kBf16;
  return shape;
}

double seconds_of_products(const OperatorTimes& times, int runs, bool blocks) {
  GemmRate rate(blocks);
  double seconds = 0;
  for (const auto& [shape, count] : times.products) {
    seconds += rate.seconds(shape, kRateTries) * static_cast<double>(count) / runs;
  }
  return seconds;
}

void report_operators(benchmark::State& state, const OperatorTimes& times, double step_seconds) {
  double sum = 0;
  double products = 0;
  for (const auto& [name, cost] : times.costs) {
    const double seconds = cost.seconds / kRuns;
    state.counters["ms " + name] = seconds * 1e3;
    sum += seconds;
    if (name.rfind("matmul", 0) == 0) products += seconds;
  }
  state.counters["ms outside operators"] = (step_seconds - sum) * 1e3;
  const double whole = seconds_of_products(times, kRuns, false);
  state.counters["ms products alone, whole"] = whole * 1e3;
  state.counters["ms products alone, blocks"] = seconds_of_products(times, kRuns, true) * 1e3;
  state.counters["ms products in step"] = products * 1e3;
  state.counters["gflops_products_in_step"] = times.gemm_flops / kRuns / products * 1e-9;
}

void training_step(benchmark::State& state, bool bf16) {
  Layout layout = kLayout;
  layout.bf16 = bf16;
  const actors::Plan plan = gpt_plan(kTargetGpt, layout);
  StageStep step(plan);
  step.run();
  step.times().clear();
  GemmRate rate;
  const GemmShape shape = reference_shape(plan);
  std::vector<double> ratios, rates, seconds;
  for (auto _ : state) {
    double flops_per_second = rate.rate(shape, kRateTries);
    seconds.push_back(step.run());
    flops_per_second = std::max(flops_per_second, rate.rate(shape, kRateTries));
    const OperatorTimes& times = step.times();
    const double flops =
        (times.gemm_flops + times.attention_flops) / static_cast<double>(seconds.size());
    rates.push_back(flops_per_second);
    ratios.push_back(seconds.back() * flops_per_second / flops);
    state.SetIterationTime(seconds.back());
  }
  const OperatorTimes& times = step.times();
  state.counters["ratio"] = median(ratios);
  state.counters["ratio_least"] = *std::min_element(ratios.begin(), ratios.end());
  state.counters["ratio_most"] = *std::max_element(ratios.begin(), ratios.end());
  state.counters["step_seconds"] = median(seconds);
  state.counters["gflops_onednn"] = median(rates) * 1e-9;
  state.counters["gflop_linear"] = times.gemm_flops / kRuns * 1e-9;
  state.counters["gflop_attention"] = times.attention_flops / kRuns * 1e-9;
  report_operators(state, times, mean(seconds));
}

BENCHMARK_CAPTURE(training_step, fp32, false)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(training_step, bf16, true)
    ->Iterations(kRuns)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace headrace::bench
