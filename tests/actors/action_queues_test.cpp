// ActionQueues: static is program order; greedy never reorders inside a queue, W comes last.
#include "runtime/actors/action_queues.hpp"

#include "schedules/passes.hpp"
#include "schedules/registry.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

using schedules::Action;
using schedules::ActionKind;

// Every schedule that trains, for P <= 4, M <= 6, V <= 2; with its step's end, which must be left
// out by the queues.
std::vector<schedules::Program> programs() {
  std::vector<schedules::Program> all;
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    for (std::int32_t ranks = 1; ranks <= 4; ++ranks) {
      for (std::int32_t microbatches = 1; microbatches <= 6; ++microbatches) {
        for (int variant = 0; variant < 3; ++variant) {
          schedules::ScheduleSpec spec;
          spec.name = std::string(info.name);
          spec.ranks = ranks;
          spec.microbatches = microbatches;
          spec.chunks = variant == 1 ? 2 : 1;
          spec.descending_backward = variant == 2;
          auto program = schedules::make_program(spec);
          if (!program || program->forward_only) continue;
          all.push_back(schedules::with_step_end(
              schedules::with_ascending_weights(*std::move(program)), {.tied = true}));
        }
      }
    }
  }
  return all;
}

std::vector<Action> compute_of(const std::vector<Action>& actions) {
  std::vector<Action> compute;
  for (const Action& action : actions) {
    if (is_compute(action.kind)) compute.push_back(action);
  }
  return compute;
}

std::pair<std::int32_t, int> queue_of(const Action& action) {
  const bool weight = action.kind == ActionKind::kBackwardWeight;
  return {action.stage.value, action.kind == ActionKind::kForward ? 0 : (weight ? 2 : 1)};
}

TEST_CASE("action queues: static issues every schedule in program order") {
  const auto all = programs();
  REQUIRE(all.size() > 60);
  for (const schedules::Program& program : all) {
    for (const auto& actions : program.actions) {
      const std::vector<Action> expected = compute_of(actions);
      ActionQueues queues(actions, false);
      CHECK(queues.total() == static_cast<std::int64_t>(expected.size()));
      for (int step = 0; step < 2; ++step) {
        queues.rewind();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          REQUIRE(queues.choose([](const Action&) { return false; }) == -1);
          REQUIRE(queues.earliest() == expected[i]);
          std::vector<Action> asked;
          const int queue = queues.choose([&](const Action& head) {
            asked.push_back(head);
            return true;
          });
          REQUIRE(asked == std::vector<Action>{expected[i]});
          REQUIRE(queues.head(queue) == expected[i]);
          REQUIRE(queues.issued() == static_cast<std::int64_t>(i));
          queues.pop(queue);
        }
        CHECK(queues.empty());
      }
    }
  }
}

// Issues everything with a random choice of what is ready; returns the order.
std::vector<Action> issue_randomly(ActionQueues& queues, std::mt19937_64& random) {
  std::vector<Action> order;
  queues.rewind();
  while (!queues.empty()) {
    std::map<std::pair<std::int32_t, int>, bool> answers;
    std::vector<Action> ready;
    const int queue = queues.choose([&](const Action& head) {
      const auto [answer, fresh] = answers.try_emplace(queue_of(head), random() % 3 != 0);
      REQUIRE(fresh);  // one question per queue
      if (answer->second) ready.push_back(head);
      return answer->second;
    });
    if (queue < 0) {
      REQUIRE(ready.empty());
      continue;
    }
    const Action chosen = queues.head(queue);
    REQUIRE(std::find(ready.begin(), ready.end(), chosen) != ready.end());
    order.push_back(chosen);
    queues.pop(queue);
  }
  return order;
}

TEST_CASE("action queues: greedy never reorders inside a queue whatever is ready") {
  constexpr std::uint64_t kSeed = 11;
  CAPTURE(kSeed);
  std::mt19937_64 random(kSeed);
  for (const schedules::Program& program : programs()) {
    for (const auto& actions : program.actions) {
      std::map<std::pair<std::int32_t, int>, std::vector<Action>> expected;
      for (const Action& action : compute_of(actions)) expected[queue_of(action)].push_back(action);
      ActionQueues queues(actions, true);
      for (int step = 0; step < 2; ++step) {
        std::map<std::pair<std::int32_t, int>, std::vector<Action>> seen;
        for (const Action& action : issue_randomly(queues, random))
          seen[queue_of(action)].push_back(action);
        REQUIRE(seen == expected);
      }
    }
  }
}

TEST_CASE("action queues: greedy takes the earliest ready head and W only when nothing else is") {
  const StageIndex stage(0);
  const std::vector<Action> program{{ActionKind::kForward, stage, MicrobatchIndex(0)},
                                    {ActionKind::kBackwardInput, stage, MicrobatchIndex(0)},
                                    {ActionKind::kBackwardWeight, stage, MicrobatchIndex(0)},
                                    {ActionKind::kForward, stage, MicrobatchIndex(1)},
                                    {ActionKind::kBackwardInput, stage, MicrobatchIndex(1)},
                                    {ActionKind::kBackwardWeight, stage, MicrobatchIndex(1)}};
  ActionQueues queues(program, true);
  queues.rewind();
  const auto everything = [](const Action&) { return true; };
  const auto take = [&](const auto& ready) {
    const int queue = queues.choose(ready);
    REQUIRE(queue >= 0);
    const std::string text = to_string(queues.head(queue));
    queues.pop(queue);
    return text;
  };
  CHECK(take(everything) == "0F0");
  // The input gradient is not there yet: the next forward goes ahead, though it stands later.
  CHECK(take([](const Action& head) { return head.kind == ActionKind::kForward; }) == "0F1");
  CHECK(to_string(queues.earliest()) == "0I0");
  CHECK(take(everything) == "0I0");
  CHECK(to_string(queues.earliest()) == "0W0");
  CHECK(take(everything) == "0I1");  // although 0W0 stands before it and is ready
  CHECK(take(everything) == "0W0");
  CHECK(take(everything) == "0W1");
  CHECK(queues.empty());
}

TEST_CASE("action queues: the issued prefix ends at the first gap") {
  const std::vector<Action> actions{{ActionKind::kForward, StageIndex(0), MicrobatchIndex(0)},
                                    {ActionKind::kBackwardInput, StageIndex(0), MicrobatchIndex(0)},
                                    {ActionKind::kForward, StageIndex(0), MicrobatchIndex(1)},
                                    {ActionKind::kForward, StageIndex(0), MicrobatchIndex(2)}};
  ActionQueues queues(actions, true);
  queues.rewind();
  const auto forwards = [](const Action& action) { return action.kind == ActionKind::kForward; };
  CHECK(queues.issued_prefix() == 0);
  for (const std::int64_t issued : {1, 2, 3}) {
    queues.pop(queues.choose(forwards));
    CHECK(queues.issued() == issued);
    CHECK(queues.issued_prefix() == 1);  // the I is left out
  }
  queues.pop(queues.choose([](const Action&) { return true; }));
  CHECK(queues.issued_prefix() == 4);
}

}  // namespace
}  // namespace headrace::actors
