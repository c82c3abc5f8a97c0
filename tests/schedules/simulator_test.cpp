#include "schedules/simulator.hpp"

#include "schedules/passes.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace headrace::schedules {
namespace {

using testing::program_of;
using testing::program_of_rows;
using testing::Shape;

std::vector<std::int32_t> peaks_of(const Program& program) {
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  return facts->peak_activations;
}

double makespan(const Program& program, const SimulationOptions& options = {}) {
  return simulate(program, options).makespan;
}

TEST_CASE("case C13: fewer microbatches than ranks run with makespan 12 15 18 and small peaks") {
  const double expected[] = {12, 15, 18};
  for (std::int32_t m = 1; m <= 3; ++m)
    for (const char* name : {"1f1b", "gpipe"}) {
      const Program program = program_of(name, {4, m});
      CHECK(makespan(program) == expected[m - 1]);
      for (std::int32_t r = 0; r < 4; ++r) {
        CHECK(program.actions[Rank{r}.index()].size() == 2 * static_cast<std::size_t>(m));
        if (std::string(name) == "1f1b")
          CHECK(peaks_of(program)[Rank{r}.index()] == std::min(m, 4 - r));
      }
    }
}

TEST_CASE("case C35: interleaved makespans for M around and not a multiple of P") {
  const std::pair<std::int32_t, double> expected[] = {{2, 27}, {3, 30}, {5, 39}, {6, 45},
                                                      {7, 51}, {8, 57}, {10, 69}};
  for (const auto& [m, time] : expected)
    CHECK(makespan(program_of("interleaved_1f1b", {4, m, 2})) == time);
  const Program program = program_of("interleaved_1f1b", {2, 4, 2});
  CHECK(makespan(program) == 27);
  CHECK(peaks_of(program) == std::vector<std::int32_t>{5, 3});
}

TEST_CASE("case C36: known makespans idle shares and peaks of 1f1b and gpipe") {
  for (const char* name : {"1f1b", "gpipe"}) {
    const Simulation run = simulate(program_of(name, {4, 8}), {});
    CHECK(run.makespan == 33);
    CHECK(run.bubble_global == doctest::Approx(3.0 / 11));
    CHECK(makespan(program_of(name, {8, 8})) == 45);
  }
  CHECK(peaks_of(program_of("1f1b", {4, 8})) == std::vector<std::int32_t>{4, 3, 2, 1});
  CHECK(peaks_of(program_of("gpipe", {4, 8})) == std::vector<std::int32_t>{8, 8, 8, 8});
  SimulationOptions latency;
  latency.hop = 1;
  CHECK(makespan(program_of("1f1b", {4, 8}), latency) == 49);
}

TEST_CASE("simulator: latency costs what the closed forms say") {
  SimulationOptions options;
  options.hop = 0.125;
  for (std::int32_t p = 2; p <= 8; ++p)
    for (std::int32_t m = p; m <= 24; ++m) {
      const auto extra = [&](const char* name) {
        const Program program = program_of(name, {p, m});
        return (makespan(program, options) - makespan(program)) / options.hop;
      };
      CHECK(extra("gpipe") == 2 * (p - 1));
      CHECK(extra("1f1b") == 2 * (p - 1) + 2 * ((m - 1) * (p - 1) / p));
    }
}

TEST_CASE("simulator: makespans follow the closed forms for all P M V") {
  SimulationOptions options;
  options.stages = {{3, 4, 2}};  // F + B = 9
  for (std::int32_t p = 1; p <= 8; ++p)
    for (std::int32_t m = 1; m <= 16; ++m) {
      CHECK(makespan(program_of("gpipe", {p, m}), options) == (m + p - 1) * 9);
      CHECK(makespan(program_of("1f1b", {p, m}), options) == (m + p - 1) * 9);
      for (std::int32_t v = 1; v <= 4; ++v) {
        if (v == 1 || m % p == 0)
          CHECK(makespan(program_of("forward_only", {p, m, v}), options) == (m * v + p - 1) * 3);
        const Result<Program> program =
            make_program(testing::spec_of("interleaved_1f1b", {p, m, v}));
        if (program.is_ok())
          CHECK(makespan(*program, options) == ((v - 1) * std::max(m, p) + m + p - 1) * 9);
      }
    }
}

TEST_CASE("simulator: a full backward gives its gradient at its end and halves at the first") {
  CHECK(makespan(program_of_rows({"0F0,0B0", "1F0,1B0"}, 1, 1)) == 6);
  CHECK(makespan(program_of_rows({"0F0,0I0,0W0", "1F0,1I0,1W0"}, 1, 1)) == 5);
}

TEST_CASE("simulator: costs per stage and actions other than compute") {
  SimulationOptions options;
  options.stages = {{1, 2, 3}, {10, 20, 30}};
  const Program program = program_of("1f1b", {2, 1});
  CHECK(makespan(program, options) == 66);
  const Program lowered = with_step_end(with_transfers(program), {true});
  const Simulation run = simulate(lowered, options);
  CHECK(run.makespan == 66);
  CHECK(run.timeline[0].size() == 2);
  CHECK(run.timeline[1][1].start == 11);
  CHECK(run.timeline[1][1].end == 61);
  CHECK(run.busy == std::vector<double>{6, 60});
  CHECK(run.idle == std::vector<double>{60, 6});
}

TEST_CASE("simulator: the step end starts when the last rank has computed") {
  SimulationOptions options;
  options.step_end = {5, 1};
  const Simulation run = simulate(program_of("1f1b", {2, 1}), options);
  CHECK(run.makespan == 6 + 5);
  CHECK(run.busy == std::vector<double>{8, 4});
  CHECK(run.idle == std::vector<double>{3, 7});
  CHECK(run.bubble_global == doctest::Approx(1 - 12.0 / 22));
}

TEST_CASE(
    "simulator: with one core the makespan is the sum of all work and nobody is idle for long") {
  SimulationOptions options;
  options.cores = 1;
  for (std::int32_t p = 1; p <= 6; ++p)
    for (std::int32_t m = 1; m <= 8; ++m) {
      const Simulation run = simulate(program_of("1f1b", {p, m}), options);
      CHECK(run.makespan == doctest::Approx(3 * p * m));
    }
}

TEST_CASE("simulator: two ranks that share one core each run at half speed") {
  // Rank 0 computes 0..1 alone; then 0F1 and 1F0 share until 3, and so on.
  SimulationOptions options;
  options.cores = 1;
  const Program program = program_of_rows({"0F0,0F1", "1F0,1F1"}, 1, 2);
  Program forward = program;
  forward.forward_only = true;
  const Simulation run = simulate(forward, options);
  CHECK(run.timeline[0][0].end == 1);
  CHECK(run.timeline[0][1].end == 3);
  CHECK(run.timeline[1][0].end == 3);
  CHECK(run.timeline[1][1].end == 4);
  CHECK(run.oversubscribed == std::vector<double>{1, 1});
  CHECK(run.idle == std::vector<double>{1, 1});
}

TEST_CASE("simulator: latency and a shared core together as counted by hand") {
  SimulationOptions options;
  options.cores = 1;
  options.hop = 1;
  options.stages = {{4, 4, 4}};
  const Simulation run = simulate(program_of("forward_only", {3, 3}), options);
  const std::vector<std::vector<double>> starts{{0, 4, 11}, {5, 13, 23.5}, {14, 24.5, 32.5}};
  const std::vector<std::vector<double>> ends{{4, 11, 21.5}, {13, 23.5, 31.5}, {24.5, 32, 36.5}};
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t m = 0; m < 3; ++m) {
      CHECK(run.timeline[r][m].start == doctest::Approx(starts[r][m]));
      CHECK(run.timeline[r][m].end == doctest::Approx(ends[r][m]));
    }
  CHECK(run.oversubscribed[0] == doctest::Approx(9.5));
  CHECK(run.idle[0] == doctest::Approx(36.5 - 12 - 9.5));
}

TEST_CASE("simulator: shared cores lie between the work bound and the unshared time plus waiting") {
  for (std::int32_t p = 2; p <= 8; ++p)
    for (std::int32_t m = 1; m <= 8; ++m)
      for (std::int32_t cores = 1; cores <= p; ++cores) {
        const Program program = program_of("1f1b", {p, m});
        SimulationOptions options;
        options.cores = cores;
        const Simulation run = simulate(program, options);
        const double alone = makespan(program);
        CHECK(run.makespan >= alone - 1e-9);
        CHECK(run.makespan >= 3.0 * p * m / cores - 1e-9);
        CHECK(run.makespan <= alone + 3.0 * p * m / cores);
        if (cores == p) CHECK(run.makespan == alone);
        for (std::size_t r = 0; r < run.idle.size(); ++r) {
          CHECK(run.oversubscribed[r] >= -1e-9);
          CHECK(run.idle[r] >= -1e-9);
        }
      }
}

}  // namespace
}  // namespace headrace::schedules
