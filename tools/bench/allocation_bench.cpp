// Heap allocations in steady state and resident memory over many steps: counted, not assumed.
#include "runtime/actors/pipeline.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "runtime/actors/train.hpp"
#include "runtime/base/check.hpp"
#include "tools/bench/allocation_counter.hpp"
#include "tools/bench/models.hpp"
#include "tools/bench/series.hpp"
#include "tools/bench/stage_step.hpp"

#include <benchmark/benchmark.h>

#include <fstream>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace headrace::bench {
namespace {

constexpr std::int64_t kFirstCounted = 3;
constexpr std::size_t kSourcesShown = 6;

void report_sources(benchmark::State& state, double steps) {
  double onednn = 0, actors = 0, own = 0, other = 0;
  std::string label;
  const std::vector<AllocationSource> sources = allocation_sources();
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const AllocationSource& source = sources[i];
    const double count = static_cast<double>(source.count) / steps;
    double& sum = source.library.rfind("libdnnl", 0) == 0  ? onednn
                  : source.library.rfind("libcaf", 0) == 0 ? actors
                  : source.library.empty()                 ? own
                                                           : other;
    sum += count;
    if (i >= kSourcesShown) continue;
    label += (i == 0 ? "" : " | ") + std::to_string(count) + " " + source.library + " " +
             source.function.substr(0, 60);
  }
  state.counters["per_step_onednn"] = onednn;
  state.counters["per_step_caf"] = actors;
  state.counters["per_step_own_code"] = own;
  state.counters["per_step_other_libraries"] = other;
  state.counters["per_step"] = onednn + actors + own + other;
  state.SetLabel(label);
}

// Every operator of a training step, by class.
void kernel_allocations(benchmark::State& state, bool bf16) {
  StageStep step(gpt_plan(kTinyGpt, {1, 8, 2, 1, bf16}));
  for (std::int64_t i = 1; i < kFirstCounted; ++i) step.run();
  constexpr int kSteps = 4;
  for (auto _ : state) {
    step.times().clear();
    start_counting_allocations();
    for (int i = 0; i < kSteps; ++i) step.run();
    stop_counting_allocations();
  }
  double products = 0, product_allocations = 0, others = 0;
  for (const auto& [name, cost] : step.times().costs) {
    if (name.rfind("matmul", 0) == 0) {
      products += static_cast<double>(cost.calls);
      product_allocations += static_cast<double>(cost.allocations);
    } else {
      others += static_cast<double>(cost.allocations);
    }
  }
  report_sources(state, kSteps);
  state.counters["per_matmul"] = product_allocations / products;
  state.counters["in_other_operators"] = others;
}

// Four ranks in one thread, without actors: what is left is the data plane.
class HandDrivenRanks {
 public:
  explicit HandDrivenRanks(const actors::Plan& plan) {
    auto pipeline = actors::Pipeline::create(plan);
    HEADRACE_CHECK(pipeline.is_ok(), pipeline.status().message());
    pipeline_ = *std::move(pipeline);
    for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
      auto worker = actors::RankWorker::create(*pipeline_, Rank(r));
      HEADRACE_CHECK(worker.is_ok(), worker.status().message());
      workers_.push_back(*std::move(worker));
    }
  }

  void step(std::int64_t number) {
    if (number == 1) open(number);
    std::size_t ready = 0;
    while (ready < workers_.size()) {
      for (auto& worker : workers_) {
        (void)worker->advance();
        if (worker->take_norm()) ++ready;
      }
    }
    actors::CommitStep commit;
    commit.step = number;
    commit.learning_rate = 1e-4F;
    commit.open_next = 1;
    commit.next = opening(number + 1);
    for (auto& worker : workers_) {
      worker->commit(commit);
      (void)worker->take_applied();
    }
  }

 private:
  [[nodiscard]] actors::RunStep opening(std::int64_t number) const {
    return {number, pipeline_->tokens_per_step(), 0, 0};
  }
  void open(std::int64_t number) {
    for (auto& worker : workers_) {
      pipeline_->doorbell().awake(worker->rank());
      worker->open(opening(number));
    }
  }

  std::unique_ptr<actors::Pipeline> pipeline_;
  std::vector<std::unique_ptr<actors::RankWorker>> workers_;
};

void data_plane_allocations(benchmark::State& state) {
  HandDrivenRanks ranks(gpt_plan(kTinyGpt, {4, 8, 1, 100, false}));
  std::int64_t step = 1;
  for (; step < kFirstCounted; ++step) ranks.step(step);
  constexpr int kSteps = 20;
  for (auto _ : state) {
    start_counting_allocations();
    for (int i = 0; i < kSteps; ++i) ranks.step(step++);
    stop_counting_allocations();
  }
  report_sources(state, kSteps);
  // The report of a step's norm is a control message, built where the program asks for it.
  double control = 0, data_plane = 0;
  for (const AllocationSource& source : allocation_sources()) {
    if (!source.library.empty()) continue;
    const bool report = source.function.find("finish_norm") != std::string::npos;
    (report ? control : data_plane) += static_cast<double>(source.count) / kSteps;
  }
  state.counters["per_step_control"] = control;
  state.counters["per_step_data_plane"] = data_plane;
}

class StepCounter : public actors::RunObserver {
 public:
  explicit StepCounter(std::int64_t last) : last_(last) {}
  void on_step(const actors::StepRecord& record) override {
    if (record.step.value == kFirstCounted) start_counting_allocations();
    if (record.step.value == last_) stop_counting_allocations();
  }

 private:
  std::int64_t last_;
};

void training_allocations(benchmark::State& state) {
  constexpr std::int64_t kCounted = 40;
  const actors::Plan plan = gpt_plan(kTinyGpt, {2, 8, 1, kFirstCounted + kCounted + 2, false});
  for (auto _ : state) {
    StepCounter counter(kFirstCounted + kCounted);
    actors::RunOptions options;
    options.observer = &counter;
    const actors::RunResult result = actors::train(plan, options);
    HEADRACE_CHECK(result.status.is_ok(), result.status.message());
  }
  report_sources(state, static_cast<double>(kCounted));
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

class MemoryWatch : public actors::RunObserver {
 public:
  MemoryWatch() { samples.reserve(256); }
  void on_step(const actors::StepRecord& record) override {
    if (record.step.value < 200 || record.step.value % 25 != 0) return;
    samples.emplace_back(static_cast<double>(record.step.value), resident_bytes());
  }
  std::vector<std::pair<double, double>> samples;  // step, bytes
};

// Least squares.
double slope(const std::vector<std::pair<double, double>>& points) {
  double x_mean = 0, y_mean = 0;
  for (const auto& [x, y] : points) {
    x_mean += x / static_cast<double>(points.size());
    y_mean += y / static_cast<double>(points.size());
  }
  double above = 0, below = 0;
  for (const auto& [x, y] : points) {
    above += (x - x_mean) * (y - y_mean);
    below += (x - x_mean) * (x - x_mean);
  }
  return above / below;
}

void flat_memory(benchmark::State& state) {
  const actors::Plan plan = gpt_plan({2, 32, 2, 16}, {2, 4, 1, 2000, false});
  MemoryWatch watch;
  for (auto _ : state) {
    actors::RunOptions options;
    options.observer = &watch;
    const actors::RunResult result = actors::train(plan, options);
    HEADRACE_CHECK(result.status.is_ok(), result.status.message());
  }
  state.counters["rss_bytes_step_200"] = watch.samples.front().second;
  state.counters["rss_bytes_step_2000"] = watch.samples.back().second;
  state.counters["rss_slope_bytes_per_step"] = slope(watch.samples);
}

BENCHMARK_CAPTURE(kernel_allocations, fp32, false)->Iterations(1);
BENCHMARK_CAPTURE(kernel_allocations, bf16, true)->Iterations(1);
BENCHMARK(data_plane_allocations)->Iterations(1);
BENCHMARK(training_allocations)->Iterations(1);
BENCHMARK(flat_memory)->Iterations(1);

}  // namespace
}  // namespace headrace::bench
