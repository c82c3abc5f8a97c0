// Every schedule, measured against simulated: with stages that sleep, and with a model that
// computes.
#include "tools/bench/library_bench.hpp"

#include "runtime/actors/prediction.hpp"
#include "runtime/actors/train.hpp"
#include "runtime/base/check.hpp"
#include "schedules/registry.hpp"
#include "tools/bench/models.hpp"
#include "tools/bench/probe_layers.hpp"
#include "tools/bench/series.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace headrace::bench {
namespace {

constexpr int kRuns = 3;
constexpr std::int32_t kMicrobatches = 16;
constexpr std::int64_t kSteps = 4;
// Cut into at most 8 stages; a few milliseconds per stage and microbatch.
constexpr GptSize kLibraryGpt{8, 256, 8, 256};

bool trains(const schedules::ScheduleSpec& spec) {
  const auto program = schedules::make_program(spec);
  return program.is_ok() && !program->forward_only;
}

Layout layout_of(const schedules::ScheduleSpec& spec) {
  Layout layout{spec.ranks, spec.microbatches, 1, kSteps, false, spec.name, spec.chunks};
  layout.reduction_blocks = 2;  // what schedules with two replicas need
  return layout;
}

void measure(benchmark::State& state, const schedules::ScheduleSpec& spec, bool sleeps) {
  actors::Plan plan =
      sleeps ? probe_plan(kSleepLayer, layout_of(spec)) : gpt_plan(kLibraryGpt, layout_of(spec));
  // With two threads a rank charges wall time, and a sleep uses no CPU time.
  for (config::RankConfig& rank : plan.config.ranks) rank.threads = sleeps ? 2 : 1;
  std::vector<double> errors, measured, predicted, bubbles;
  for (auto _ : state) {
    const actors::RunResult result = actors::train(plan);
    HEADRACE_CHECK(result.status.is_ok(), result.status.message());
    std::vector<double> seconds;  // without the first step, which touches memory
    for (std::size_t i = 1; i < result.steps.size(); ++i)
      seconds.push_back(result.steps[i].seconds);
    const double expected = sleeps ? actors::predict(plan, result.times, spec.ranks).step_seconds
                                   : result.step_seconds_predicted;
    errors.push_back(mean(seconds) / expected - 1);
    measured.push_back(mean(seconds));
    predicted.push_back(expected);
    bubbles.push_back(result.steps.back().bubble);
    state.SetIterationTime(mean(seconds));
  }
  state.counters["step_seconds"] = median(measured);
  state.counters["step_seconds_predicted"] = median(predicted);
  state.counters["measured_over_predicted_minus_1"] = median(errors);
  state.counters["bubble_global"] = median(bubbles);
}

void register_schedule(const std::string& name, std::int32_t ranks, bool sleeps) {
  for (std::int32_t chunks : {1, 2}) {
    schedules::ScheduleSpec spec;
    spec.name = name;
    spec.ranks = ranks;
    spec.chunks = chunks;
    spec.microbatches = kMicrobatches;
    // A search is not a thing to do at start; its order exists for every one of these.
    if (name == "auto" ? chunks != 1 : !trains(spec)) continue;
    const std::string title = "library/" + name + "/P" + std::to_string(ranks) + "_V" +
                              std::to_string(chunks) + (sleeps ? "_sleeping" : "_computing");
    benchmark::RegisterBenchmark(
        title.c_str(), [spec, sleeps](benchmark::State& state) { measure(state, spec, sleeps); })
        ->Iterations(kRuns)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace

void register_library() {
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    const std::string name(info.name);
    for (std::int32_t ranks : {2, 4}) register_schedule(name, ranks, false);
    for (std::int32_t ranks : {2, 4, 8}) register_schedule(name, ranks, true);
  }
}

}  // namespace headrace::bench
