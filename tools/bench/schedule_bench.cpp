// The schedule library on large programs: CPU seconds per phase, and bytes held per action.
#include "runtime/base/check.hpp"
#include "schedules/passes.hpp"
#include "schedules/registry.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"
#include "tools/bench/allocation_counter.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <initializer_list>
#include <utility>

namespace headrace::bench {
namespace {

struct LargeShape {
  const char* schedule;
  std::int32_t ranks;
  std::int32_t microbatches;
  std::int32_t chunks;
};
// 524288 compute actions each.
constexpr LargeShape kOneFOneB{"1f1b", 256, 1024, 1};
constexpr LargeShape kInterleaved{"interleaved_1f1b", 64, 1024, 4};

struct Phases {
  double generate = 0, lower = 0, validate = 0, simulate = 0;
  double actions = 0;  // of the lowered programs
  double compute_actions = 0;
};

// This thread's CPU time: other work on the machine is not the library's.
double cpu_now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Seconds since *mark, which becomes now.
double lap(double* mark) {
  const double before = std::exchange(*mark, cpu_now());
  return *mark - before;
}

void run_phases(const LargeShape& shape, Phases* phases) {
  schedules::ScheduleSpec spec;
  spec.name = shape.schedule;
  spec.ranks = shape.ranks;
  spec.microbatches = shape.microbatches;
  spec.chunks = shape.chunks;
  double mark = cpu_now();
  schedules::Program program = schedules::make_program(spec).value();
  phases->generate += lap(&mark);
  for (const auto& list : program.actions)
    phases->compute_actions += static_cast<double>(list.size());
  mark = cpu_now();
  program = schedules::with_transfers(std::move(program));
  program = schedules::with_step_end(std::move(program), {});
  phases->lower += lap(&mark);
  const auto facts = schedules::validate(program);
  HEADRACE_CHECK(facts.is_ok(), facts.status().message());
  phases->validate += lap(&mark);
  const schedules::Simulation simulation = schedules::simulate(program, {});
  benchmark::DoNotOptimize(simulation.makespan);
  phases->simulate += lap(&mark);
  for (const auto& list : program.actions) phases->actions += static_cast<double>(list.size());
}

void measure(benchmark::State& state, std::initializer_list<LargeShape> shapes) {
  Phases phases;
  for (auto _ : state)
    for (const LargeShape& shape : shapes) run_phases(shape, &phases);
  const auto runs = static_cast<double>(state.iterations());
  state.counters["cpu_seconds_generate"] = phases.generate / runs;
  state.counters["cpu_seconds_lower"] = phases.lower / runs;
  state.counters["cpu_seconds_validate"] = phases.validate / runs;
  state.counters["cpu_seconds_simulate"] = phases.simulate / runs;
  state.counters["cpu_seconds_all"] =
      (phases.generate + phases.lower + phases.validate + phases.simulate) / runs;
  state.counters["actions"] = phases.actions / runs;
  state.counters["compute_actions"] = phases.compute_actions / runs;
}

void schedule_1f1b(benchmark::State& state) { measure(state, {kOneFOneB}); }
void schedule_interleaved(benchmark::State& state) { measure(state, {kInterleaved}); }
void schedule_both(benchmark::State& state) { measure(state, {kOneFOneB, kInterleaved}); }
BENCHMARK(schedule_1f1b)->Name("schedule/1f1b_p256_m1024")->Unit(benchmark::kMillisecond);
BENCHMARK(schedule_interleaved)
    ->Name("schedule/interleaved_1f1b_p64_m1024_v4")
    ->Unit(benchmark::kMillisecond);
BENCHMARK(schedule_both)->Name("schedule/both")->Unit(benchmark::kMillisecond)->Iterations(3);

// The most that all phases hold together, over the actions of the lowered program.
void schedule_memory(benchmark::State& state) {
  double worst = 0;
  for (auto _ : state)
    for (const LargeShape& shape : {kOneFOneB, kInterleaved}) {
      Phases phases;
      start_following_bytes();
      run_phases(shape, &phases);
      worst = std::max(worst, static_cast<double>(stop_following_bytes()) / phases.actions);
    }
  state.counters["peak_bytes_per_action"] = worst;
}
BENCHMARK(schedule_memory)->Name("schedule/memory")->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace headrace::bench
