// Why ranks are idle, and which chain of actions determines the makespan.
#include "schedules/simulator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

namespace headrace::schedules {
namespace {

using testing::program_of;

constexpr Communication kModels[] = {Communication::kOverlap, Communication::kSync,
                                     Communication::kRendezvous};

void check_causes(const IdleCauses& causes, const IdleCauses& expected) {
  CHECK(causes.warm_up == expected.warm_up);
  CHECK(causes.cool_down == expected.cool_down);
  CHECK(causes.dependency == expected.dependency);
  CHECK(causes.transfer == expected.transfer);
}

std::string path_of(const Simulation& run) {
  std::string text;
  for (const CriticalStep& step : run.critical_path)
    text += (text.empty() ? "" : " ") + to_string(step.action);
  return text;
}

Simulation run_1f1b(Communication model) {
  SimulationOptions options;
  options.hop = 0.5;
  options.communication = model;
  return simulate(program_of("1f1b", {2, 2}), options);
}

TEST_CASE("simulator idle: overlapped hops as counted by hand") {
  // Rank 0: 0F0 0..1, 0F1 1..2, 0B0 5..7, 0B1 8..10; rank 1: 1F0 1.5..2.5, 1B0 ..4.5, 1F1 ..5.5,
  // 1B1 ..7.5.
  const Simulation run = run_1f1b(Communication::kOverlap);
  CHECK(run.makespan == 10);
  check_causes(run.idle_causes[0], {0, 0, 3, 1});
  check_causes(run.idle_causes[1], {1.5, 2.5, 0, 0});
  CHECK(path_of(run) == "0F0 1F0 1B0 1F1 1B1 0B1");
}

TEST_CASE("simulator idle: synchronous sends as counted by hand") {
  // Rank 0 sends 1..1.5 and 2.5..3, rank 1 sends 4.5..5 and 8..8.5.
  const Simulation run = run_1f1b(Communication::kSync);
  CHECK(run.makespan == 10.5);
  check_causes(run.idle_causes[0], {0, 0, 2.5, 2});
  check_causes(run.idle_causes[1], {1.5, 2.5, 0, 0.5});
  CHECK(path_of(run) == "0F0 1F0 1B0 1F1 1B1 0B1");
}

TEST_CASE("simulator idle: rendezvous as counted by hand") {
  // Transfers 1..1.5 (0F0), 4.5..5 (0F1 and 1B0 together), 8..8.5 (1B1).
  const Simulation run = run_1f1b(Communication::kRendezvous);
  CHECK_FALSE(run.is_deadlocked);
  CHECK(run.makespan == 10.5);
  check_causes(run.idle_causes[0], {0, 0, 3, 1.5});
  check_causes(run.idle_causes[1], {1.5, 2.5, 0, 0.5});
  CHECK(path_of(run) == "0F0 1F0 1B0 1F1 1B1 0B1");
}

TEST_CASE("simulator idle: the step end belongs to the path and waiting for it is cool down") {
  SimulationOptions options;
  options.step_end = {1, 5};
  const Simulation run = simulate(program_of("1f1b", {2, 1}), options);
  CHECK(run.makespan == 11);
  check_causes(run.idle_causes[0], {0, 4, 3, 0});
  check_causes(run.idle_causes[1], {1, 2, 0, 0});
  CHECK(path_of(run) == "0F0 1F0 1B0 0B0 OPTIMIZER");
  CHECK(run.critical_path.back().rank == Rank{1});
  CHECK(run.critical_path.back().start == 6);
  CHECK(run.critical_path.back().end == 11);
}

TEST_CASE("simulator links: one message after the other and latencies overlap") {
  SimulationOptions options;
  options.hop = 100;  // of the pairs that are not listed: none here
  options.links = {{Rank{0}, Rank{1}, 0.25, 0.5}};
  options.boundary_bytes = {4};
  const Simulation run = simulate(program_of("forward_only", {2, 3}), options);
  const std::vector<double> starts{3.25, 5.25, 7.25};
  for (std::size_t m = 0; m < starts.size(); ++m) CHECK(run.timeline[1][m].start == starts[m]);
  // The last message waits for the link, which the first one took at 1.
  CHECK(path_of(run) == "0F0 1F2");
  // 1F0 1..3.25 warm-up; then the inputs have left already.
  check_causes(run.idle_causes[1], {3.25, 0, 0, 2});
}

TEST_CASE("simulator links: directions and boundaries have their own costs") {
  SimulationOptions options;
  options.hop = 0.5;
  options.links = {{Rank{1}, Rank{0}, 0, 1}, {Rank{1}, Rank{2}, 1, 0.125}};
  options.boundary_bytes = {2, 8};
  // 0F0 0..1, hop, 1F0 1.5..2.5, 2 over the link, 2F0 4.5..5.5, 2B0 ..7.5, hop, 1B0 8..10, 2, 0B0.
  for (const Communication model : kModels) {
    options.communication = model;
    const Simulation run = simulate(program_of("1f1b", {3, 1}), options);
    CHECK(run.timeline[1][0].start == 1.5);
    CHECK(run.timeline[2][0].start == 4.5);
    CHECK(run.timeline[1][1].start == 8);
    CHECK(run.timeline[0][1].start == 12);
    CHECK(run.makespan == 14);
  }
}

TEST_CASE("simulator rendezvous: a valid program that hangs says so") {
  SimulationOptions options;
  options.communication = Communication::kRendezvous;
  const Simulation run = simulate(program_of("interleaved_1f1b", {2, 4, 2}), options);
  CHECK(run.is_deadlocked);
  CHECK(std::isinf(run.makespan));
  CHECK(run.critical_path.empty());
  CHECK_FALSE(simulate(program_of("1f1b", {2, 4}), options).is_deadlocked);
}

struct Case {
  Program program;
  SimulationOptions options;
};

// Durations are multiples of 1/8: sums are exact.
Case random_case(std::mt19937* random, Communication model) {
  const auto draw = [&](std::int32_t below) {
    return static_cast<std::int32_t>((*random)() % static_cast<std::uint32_t>(below));
  };
  const char* const names[] = {"1f1b", "gpipe", "interleaved_1f1b", "forward_only"};
  const char* name = names[draw(model == Communication::kRendezvous ? 2 : 4)];
  const std::int32_t ranks = 1 + draw(5);
  const std::int32_t chunks = std::string_view(name).starts_with("i") ? 2 : 1;
  Case drawn{program_of(name, {ranks, ranks * (1 + draw(3)), chunks}), {}};
  const auto time = [&] { return 0.125 * (1 + draw(16)); };
  for (std::int32_t s = 0; s < drawn.program.stages; ++s)
    drawn.options.stages.push_back({time(), time(), time()});
  drawn.options.hop = 0.125 * draw(8);
  drawn.options.communication = model;
  return drawn;
}

TEST_CASE("simulator idle: the causes add up to the idle time of every rank") {
  std::mt19937 random(20);
  for (const Communication model : kModels)
    for (int i = 0; i < 300; ++i) {
      const Case drawn = random_case(&random, model);
      const Simulation run = simulate(drawn.program, drawn.options);
      for (std::size_t r = 0; r < run.idle.size(); ++r) {
        const IdleCauses& causes = run.idle_causes[r];
        CHECK(run.idle[r] == run.makespan - run.busy[r]);
        CHECK(causes.warm_up + causes.cool_down + causes.dependency + causes.transfer ==
              run.idle[r]);
        CHECK(causes.warm_up == run.timeline[r].front().start);
        CHECK(causes.cool_down == run.makespan - run.timeline[r].back().end);
        CHECK(std::min(causes.dependency, causes.transfer) >= 0);
        if (drawn.options.hop == 0) CHECK(causes.transfer == 0);
      }
    }
}

TEST_CASE("simulator idle: the causes add up with shared cores too") {
  std::mt19937 random(21);
  for (int i = 0; i < 200; ++i) {
    Case drawn = random_case(&random, Communication::kOverlap);
    drawn.options.cores = 1 + static_cast<std::int32_t>(random() % 2);
    const Simulation run = simulate(drawn.program, drawn.options);
    for (std::size_t r = 0; r < run.idle.size(); ++r)
      CHECK(run.idle[r] ==
            doctest::Approx(run.makespan - run.busy[r] - run.oversubscribed[r]).epsilon(1e-9));
  }
}

// Whether `later` takes what `earlier` gives.
bool feeds(const Action& earlier, const Action& later) {
  if (earlier.microbatch != later.microbatch) return false;
  const bool is_forward = later.kind == ActionKind::kForward;
  return (earlier.kind == ActionKind::kForward) == is_forward &&
         earlier.stage.value == later.stage.value + (is_forward ? -1 : 1);
}

TEST_CASE("simulator path: every step starts when the one before and its hop end") {
  std::mt19937 random(22);
  for (int i = 0; i < 500; ++i) {
    const Case drawn = random_case(&random, Communication::kOverlap);
    const Simulation run = simulate(drawn.program, drawn.options);
    const std::vector<CriticalStep>& path = run.critical_path;
    REQUIRE_FALSE(path.empty());
    CHECK(path.front().start == 0);
    CHECK(path.back().end == run.makespan);
    double length = path.front().end - path.front().start;
    double hops = 0;
    for (std::size_t k = 1; k < path.size(); ++k) {
      length += path[k].end - path[k].start;
      if (path[k].rank == path[k - 1].rank) {
        CHECK(path[k].start == path[k - 1].end);
        continue;
      }
      CHECK(feeds(path[k - 1].action, path[k].action));
      CHECK(path[k].start == path[k - 1].end + drawn.options.hop);
      hops += drawn.options.hop;
    }
    CHECK(length + hops == run.makespan);
  }
}

bool is_on_path(const Simulation& run, std::int32_t stage) {
  return std::any_of(run.critical_path.begin(), run.critical_path.end(),
                     [&](const CriticalStep& step) { return step.action.stage.value == stage; });
}

TEST_CASE("simulator path: a shorter stage never lengthens and off the path changes nothing") {
  std::mt19937 random(23);
  int off = 0;
  int on = 0;
  for (const Communication model : kModels)
    for (int i = 0; i < 300; ++i) {
      Case drawn = random_case(&random, model);
      // One stage far longer than the rest draws the path to itself.
      StageCost& slow = drawn.options.stages[random() % drawn.options.stages.size()];
      slow = {8, 8, 8};
      const Simulation run = simulate(drawn.program, drawn.options);
      for (std::int32_t s = 0; s < drawn.program.stages; ++s) {
        SimulationOptions shorter = drawn.options;
        StageCost& cost = shorter.stages[static_cast<std::size_t>(s)];
        cost = {cost.forward / 2, cost.backward_input / 2, cost.backward_weight / 2};
        const double makespan = simulate(drawn.program, shorter).makespan;
        CHECK(makespan <= run.makespan);
        if (is_on_path(run, s)) {
          on += makespan < run.makespan;
        } else {
          CHECK(makespan == run.makespan);
          ++off;
        }
      }
    }
  CHECK(off > 50);
  CHECK(on > 500);
}

TEST_CASE("simulator: 1024 ranks follow the closed forms") {
  const Program program = program_of("1f1b", {1024, 64});
  const Simulation run = simulate(program, {});
  CHECK(run.makespan == (64 + 1023) * 3);
  CHECK(run.critical_path.front().start == 0);
  SimulationOptions options;
  options.communication = Communication::kRendezvous;
  CHECK(simulate(program, options).makespan == run.makespan);
  options.communication = Communication::kOverlap;
  options.hop = 0.25;  // 2 (P - 1) hops: M < P
  CHECK(simulate(program_of("gpipe", {1024, 64}), options).makespan ==
        run.makespan + 2 * 1023 * 0.25);
}

}  // namespace
}  // namespace headrace::schedules
