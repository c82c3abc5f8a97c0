// MicrobatchTracker: reported positions and the static program say where every microbatch is.
#include "runtime/actors/microbatch_tracker.hpp"

#include "schedules/passes.hpp"
#include "schedules/registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace headrace::actors {
namespace {

schedules::Program program_of(const char* name, std::int32_t ranks, std::int32_t microbatches,
                              bool reverse = false) {
  schedules::ScheduleSpec spec;
  spec.name = name;
  spec.ranks = ranks;
  spec.microbatches = microbatches;
  spec.descending_backward = reverse;
  return schedules::with_step_end(
      schedules::with_ascending_weights(schedules::make_program(spec).value()), {});
}

TEST_CASE("microbatch tracker: the furthest action follows the reports") {
  const schedules::Program program = program_of("1f1b", 2, 2);
  // rank 0: 0F0 0F1 0B0 0B1; rank 1: 1F0 1B0 1F1 1B1
  MicrobatchTracker tracker(program);
  const StepIndex step(4);
  CHECK(tracker.furthest(step, MicrobatchIndex(0)) == "not started");
  CHECK(tracker.in_flight(step) == "no microbatch in flight");
  tracker.report(Rank(0), step, 2);
  CHECK(tracker.furthest(step, MicrobatchIndex(0)) == "0F0");
  CHECK(tracker.furthest(step, MicrobatchIndex(1)) == "0F1");
  tracker.report(Rank(1), step, 2);
  CHECK(tracker.furthest(step, MicrobatchIndex(0)) == "1B0");
  CHECK(tracker.in_flight(step) == "microbatch 0 at 1B0, microbatch 1 at 0F1");
  tracker.report(Rank(0), step, 3);
  CHECK(tracker.in_flight(step) == "microbatch 1 at 0F1");
  tracker.report(Rank(0), step, 4);
  CHECK(tracker.in_flight(step) == "no microbatch in flight");
}

TEST_CASE("microbatch tracker: older steps and smaller positions change nothing") {
  const schedules::Program program = program_of("1f1b", 1, 3);
  MicrobatchTracker tracker(program);
  tracker.report(Rank(0), StepIndex(2), 3);
  tracker.report(Rank(0), StepIndex(1), 6);
  CHECK(tracker.furthest(StepIndex(2), MicrobatchIndex(1)) == "0F1");
  CHECK(tracker.furthest(StepIndex(1), MicrobatchIndex(1)) == "not started");
  tracker.report(Rank(0), StepIndex(2), 1);
  CHECK(tracker.furthest(StepIndex(2), MicrobatchIndex(1)) == "0F1");
  tracker.report(Rank(0), StepIndex(3), 1);  // a new step starts over
  CHECK(tracker.furthest(StepIndex(3), MicrobatchIndex(1)) == "not started");
  CHECK(tracker.furthest(StepIndex(3), MicrobatchIndex(0)) == "0F0");
}

TEST_CASE("microbatch tracker: a position beyond the program is the whole program") {
  const schedules::Program program = program_of("gpipe", 2, 2);
  MicrobatchTracker tracker(program);
  for (std::int32_t r = 0; r < 2; ++r) tracker.report(Rank(r), StepIndex(1), 1000);
  CHECK(tracker.in_flight(StepIndex(1)) == "no microbatch in flight");
}

TEST_CASE("microbatch tracker: a split backward ends with its weight gradient") {
  const schedules::Program program = program_of("gpipe", 1, 2, true);
  // 0F0 0F1 0I1 0B0 0W1, or with another place of W: found by kind, not by position.
  std::int64_t position = 0;
  MicrobatchTracker tracker(program);
  for (const schedules::Action& action : program.actions[0]) {
    tracker.report(Rank(0), StepIndex(1), ++position);
    if (!is_compute(action.kind)) break;
    if (action.microbatch.value != 1) continue;
    CHECK(tracker.furthest(StepIndex(1), MicrobatchIndex(1)) == to_string(action));
  }
  CHECK(tracker.in_flight(StepIndex(1)) == "no microbatch in flight");
}

// Every rank reports its list action by action, in turn; whatever the placement, the furthest
// action of a microbatch is the last of its own path that was reported.
void check_path(const schedules::Program& program) {
  MicrobatchTracker tracker(program);
  const StepIndex step(1);
  const auto rank_of = [&](std::int32_t stage, std::int32_t m) {
    return program.rank_of(StageIndex(stage), MicrobatchIndex(m));
  };
  for (std::int32_t m = 0; m < program.microbatches; ++m) {
    for (std::int32_t s = 0; s < program.stages; ++s) {
      const Rank rank = rank_of(s, m);
      const auto& list = program.actions[rank.index()];
      const schedules::Action forward{schedules::ActionKind::kForward, StageIndex(s),
                                      MicrobatchIndex(m)};
      const auto at = std::find(list.begin(), list.end(), forward);
      REQUIRE(at != list.end());
      tracker.report(rank, step, at - list.begin() + 1);
      if (m == 0) {
        CHECK(tracker.furthest(step, MicrobatchIndex(0)) == std::to_string(s) + "F0");
      }
    }
  }
  for (std::int32_t r = 0; r < program.ranks; ++r) {
    const auto end = static_cast<std::int64_t>(program.actions[Rank(r).index()].size());
    tracker.report(Rank(r), step, end);
  }
  CHECK(tracker.in_flight(step) == "no microbatch in flight");
}

TEST_CASE("microbatch tracker: V shapes and two directions are followed up their own path") {
  for (const char* name : {"gpipe", "dualpipe", "chimera"}) {
    check_path(schedules::without_pairs(program_of(name, 4, 8)));
  }
  schedules::ScheduleSpec spec;
  spec.name = "zbv";
  spec.ranks = 4;
  spec.chunks = 2;
  spec.microbatches = 8;
  const schedules::Program zbv = schedules::with_step_end(
      schedules::with_ascending_weights(schedules::make_program(spec).value()), {});
  MicrobatchTracker tracker(zbv);
  const StepIndex step(1);
  // 0F0 goes up to rank 3, which hands it over to itself, and back down to rank 0 as stage 7.
  tracker.report(Rank(0), step, 1);
  tracker.report(Rank(3), step, 2);
  CHECK(tracker.furthest(step, MicrobatchIndex(0)) == "4F0");
}

}  // namespace
}  // namespace headrace::actors
