// Blocks: overlap pairs, and where the gradient of a full backward leaves.
#include "schedules/csv.hpp"
#include "schedules/detail/simulation.hpp"
#include "schedules/simulator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace headrace::schedules {
namespace {

Program read(std::string_view text) { return parse_csv(text, {}).value(); }

// The pair of rank 0 starts when 1B0 has ended, at 4.
constexpr std::string_view kTwoRanks =
    "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"
    "1F0,1B0,1F1,1B1\n";

using Times = std::vector<std::pair<double, double>>;

Times times_of(const Simulation& run, std::size_t rank) {
  Times times;
  for (const SimulatedAction& action : run.timeline[rank])
    times.push_back({action.start, action.end});
  return times;
}

TEST_CASE("simulator pairs: both outputs leave at the end of the block") {
  const Simulation run = simulate(read(kTwoRanks), {});
  CHECK(times_of(run, 0) == Times{{0, 1}, {4, 7}, {4, 7}, {10, 12}});
  CHECK(times_of(run, 1) == Times{{1, 2}, {2, 4}, {7, 8}, {8, 10}});
  CHECK(run.busy == std::vector<double>{6, 6});
  CHECK(run.idle == std::vector<double>{6, 6});
}

TEST_CASE("simulator pairs: an own duration replaces the sum of the two") {
  SimulationOptions options;
  options.pair = 2.5;
  const Simulation run = simulate(read(kTwoRanks), options);
  CHECK(times_of(run, 0) == Times{{0, 1}, {4, 6.5}, {4, 6.5}, {9.5, 11.5}});
  CHECK(run.busy == std::vector<double>{5.5, 6});
}

TEST_CASE("simulator pairs: outputs may leave within the block") {
  SimulationOptions options;
  options.pair_leaves_at_end = false;
  const Simulation run = simulate(read(kTwoRanks), options);
  CHECK(times_of(run, 0) == Times{{0, 1}, {4, 7}, {4, 7}, {8, 10}});
  CHECK(times_of(run, 1) == Times{{1, 2}, {2, 4}, {5, 6}, {6, 8}});
}

TEST_CASE("simulator pairs: the gradient leaves after F and I of its pair") {
  // Rank 1 pairs 1F1 with 1B0, from 2 on: its gradient leaves at 2 + 1 + 1, or at the end 5.
  const Program program = read(
      "0F0,0F1,0B0,0B1\n"
      "1F0,(1F1;1B0)OVERLAP_F_B,1B1\n");
  CHECK(simulate(program, {}).timeline[0][2].start == 5);
  SimulationOptions options;
  options.pair_leaves_at_end = false;
  CHECK(simulate(program, options).timeline[0][2].start == 4);
  options.pair = 1.5;  // never after the block
  CHECK(simulate(program, options).timeline[0][2].start == 3.5);
}

TEST_CASE("simulator pairs: a block waits for the later of its inputs") {
  // 1F1 is there at 2 and the gradient of 2B0 at 5 (2F0 2..3 and 2B0 3..5).
  const Program program = read(
      "0F0,0F1,0B0,0B1\n"
      "1F0,(1F1;1B0)OVERLAP_F_B,1B1\n"
      "2F0,2B0,2F1,2B1\n");
  const Simulation run = simulate(program, {});
  CHECK(run.timeline[1][1].start == 5);
  CHECK(run.timeline[1][2].start == 5);
  CHECK(run.timeline[1][2].end == 8);
}

TEST_CASE("simulator pairs: two replicas with both directions leave no idle time at P 2") {
  const Program program = read(
      "0F0,1F2,0F1,1B2,(1F3;0B0)OVERLAP_F_B,1B3,0I1,0W1\n"
      "0F2,1F0,0F3,1B0,(1F1;0B2)OVERLAP_F_B,1B1,0I3,0W3\n");
  REQUIRE(program.placement == Placement::kBidirectional);
  const Simulation run = simulate(program, {});
  CHECK(run.makespan == 12);
  CHECK(run.idle == std::vector<double>{0, 0});
}

TEST_CASE(
    "simulator pairs: the idle time of dualpipev halves when outputs leave within the block") {
  // P 2, M 4. At the block's end: (P - 1) (F&B + B - 3 W) = 2.
  const Program program = read(
      "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,"
      "(3F3;0B1)OVERLAP_F_B,3B3,0I2,0W2,0I3,0W3\n"
      "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,"
      "2B2,1B2,2I3,1I3,2W3,1W3\n");
  const Simulation at_end = simulate(program, {});
  CHECK(at_end.makespan == 26);
  CHECK(at_end.idle == std::vector<double>{2, 2});
  SimulationOptions options;
  options.pair_leaves_at_end = false;
  const Simulation within = simulate(program, options);
  CHECK(within.makespan == 25);
  CHECK(within.idle == std::vector<double>{1, 1});
}

TEST_CASE("simulator pairs: a shared core runs a block as its parts") {
  for (const bool at_end : {true, false}) {
    SimulationOptions options;
    options.pair_leaves_at_end = at_end;
    const Simulation alone = simulate(read(kTwoRanks), options);
    options.cores = 1;
    const Simulation shared = simulate(read(kTwoRanks), options);
    CHECK(shared.busy == alone.busy);
    CHECK(shared.makespan >= alone.makespan);
    CHECK(shared.makespan >= 12);
    if (at_end) {  // nobody computes beside the pair, so sharing changes nothing
      CHECK(times_of(shared, 0) == times_of(alone, 0));
      CHECK(times_of(shared, 1) == times_of(alone, 1));
    } else {
      // 5: 0F1 has left, and 1F1 shares with the 2 that remain of 0B0: both at half speed until 7,
      // then 1B1 with the last 1 until 9, then 1B1's last 1 alone until 10, and 0B1.
      CHECK(times_of(shared, 0) == Times{{0, 1}, {4, 9}, {4, 9}, {10, 12}});
      CHECK(times_of(shared, 1) == Times{{1, 2}, {2, 4}, {5, 7}, {7, 10}});
    }
  }
}

TEST_CASE("simulator: a full backward may release its gradient after I") {
  SimulationOptions options;
  options.gradient_after_input = true;
  const Program program = read("0F0,0B0\n1F0,1B0\n");
  const Simulation run = simulate(program, options);
  CHECK(run.timeline[0][1].start == 3);
  CHECK(run.makespan == 5);
  CHECK(run.busy == std::vector<double>{3, 3});
  options.cores = 1;  // from 3 on 0B0 shares with the W of 1B0: 1 each until 5, and 1 is left
  CHECK(simulate(program, options).makespan == 6);
}

// 1f1b with some of its steady (F, B) as pairs; elsewhere the B needs the F beside it.
Program paired_1f1b(std::int32_t ranks, std::int32_t microbatches, std::mt19937* random) {
  Program program = testing::program_of("1f1b", {ranks, microbatches});
  for (std::int32_t r = 0; r + 1 < ranks; ++r) {
    std::vector<Action>& list = program.actions[Rank{r}.index()];
    for (std::size_t i = 1; i < list.size(); ++i)
      if (list[i - 1].kind == ActionKind::kForward && list[i].kind == ActionKind::kBackward &&
          list[i - 1].microbatch.value - list[i].microbatch.value == ranks - 1 - r)
        list[i - 1].overlaps_next = (*random)() % 2 == 0;
  }
  return program;
}

// Two independent ways: with a clock and events, and without.
TEST_CASE(
    "simulator pairs: a core for every rank gives what the simulation without a clock gives") {
  std::mt19937 random(24);
  const auto draw = [&](std::int32_t below) {
    return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(below));
  };
  for (int i = 0; i < 500; ++i) {
    const std::int32_t ranks = 1 + draw(6);
    const Program program = paired_1f1b(ranks, 1 + draw(12), &random);
    SimulationOptions options;
    for (std::int32_t s = 0; s < ranks; ++s)
      options.stages.push_back({0.125 * (1 + draw(9)), 0.125 * draw(9), 0.125 * draw(9)});
    options.hop = 0.125 * draw(5);
    options.pair = draw(2) == 0 ? 0 : 0.125 * (1 + draw(16));
    options.pair_leaves_at_end = draw(2) == 0;
    options.gradient_after_input = draw(2) == 0;
    if (draw(2) == 0) options.step_end.assign(static_cast<std::size_t>(ranks), 0.25);
    const Simulation without = simulate(program, options);
    options.cores = ranks;
    const Simulation with = detail::simulate_shared(program, options);
    CHECK(with.makespan == without.makespan);
    CHECK(with.busy == without.busy);
    CHECK(with.idle == without.idle);
    CHECK(with.bubble_span == without.bubble_span);
    for (std::size_t r = 0; r < with.timeline.size(); ++r) {
      CHECK(times_of(with, r) == times_of(without, r));
      CHECK(with.oversubscribed[r] == 0);
      CHECK(with.idle_causes[r].transfer == without.idle_causes[r].transfer);
      CHECK(with.idle_causes[r].warm_up == without.idle_causes[r].warm_up);
    }
  }
}

}  // namespace
}  // namespace headrace::schedules
