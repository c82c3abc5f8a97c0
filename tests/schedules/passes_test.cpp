#include "schedules/passes.hpp"

#include "schedules/csv.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <string>

namespace headrace::schedules {
namespace {

using testing::program_of;
using testing::program_of_rows;
using testing::spec_of;

Program reversed_gpipe(std::int32_t ranks, std::int32_t microbatches) {
  ScheduleSpec spec = spec_of("gpipe", {ranks, microbatches});
  spec.descending_backward = true;
  return make_program(spec).value();
}

// Microbatches of a stage's weight gradients in the order they run.
void check_weights_ascend(const Program& program) {
  for (const std::vector<Action>& list : program.actions) {
    std::vector<std::int32_t> last(static_cast<std::size_t>(program.stages), -1);
    for (const Action& action : list) {
      if (action.kind != ActionKind::kBackward && action.kind != ActionKind::kBackwardWeight)
        continue;
      CHECK(action.microbatch.value > last[action.stage.index()]);
      last[action.stage.index()] = action.microbatch.value;
    }
  }
}

TEST_CASE("passes: ascending weights turn a descending gpipe backward into inputs then weights") {
  const Program program = with_ascending_weights(reversed_gpipe(2, 3));
  const Program expected = program_of_rows({"0F0,0F1,0F2,0I2,0I1,0B0,0W1,0W2",  //
                                            "1F0,1F1,1F2,1I2,1I1,1B0,1W1,1W2"},
                                           1, 3);
  CHECK(program.actions == expected.actions);
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(facts->stages[0].weight_inputs == 3);
  CHECK(facts->stages[0].activation == 3);
}

TEST_CASE("passes: ascending weights leave every generated ascending program as it is") {
  for (const ScheduleInfo& info : list_schedules())
    for (std::int32_t p = 1; p <= 4; ++p)
      for (std::int32_t m = 1; m <= 8; ++m) {
        const Result<Program> program = make_program(spec_of(info.name, {p, m}));
        if (program.is_ok()) CHECK(with_ascending_weights(*program) == *program);
      }
}

TEST_CASE("passes: ascending weights hold for reversed gpipe of all sizes and stay valid") {
  for (std::int32_t p = 1; p <= 6; ++p)
    for (std::int32_t m = 1; m <= 9; ++m) {
      const Program program = with_ascending_weights(reversed_gpipe(p, m));
      check_weights_ascend(program);
      const Result<ProgramFacts> facts = validate(with_step_end(program, {true}));
      CHECK_MESSAGE(facts.is_ok(), facts.status().message());
    }
}

TEST_CASE(
    "passes: a deferred weight gradient runs at the first place where all lower ones are in") {
  const Program program = program_of_rows({"0F0,0F1,0F2,0F3,0B1,0B0,0I3,0W3,0I2,0W2"}, 1, 4);
  const Program expected = program_of_rows({"0F0,0F1,0F2,0F3,0I1,0B0,0W1,0I3,0I2,0W2,0W3"}, 1, 4);
  CHECK(with_ascending_weights(program).actions == expected.actions);
}

TEST_CASE("passes: a bidirectional program ascends on each rank by itself") {
  Program program = program_of_rows({"0F1,0F0,0B1,0B0,1F3,1F2,1B3,1B2",  //
                                     "1F1,1F0,1B1,1B0,0F3,0F2,0B3,0B2"},
                                    1, 4);
  program.placement = Placement::kBidirectional;
  check_weights_ascend(with_ascending_weights(program));
}

TEST_CASE("passes: the step end reduces stages ascending then closes each rank") {
  const Program program = with_step_end(program_of("interleaved_1f1b", {2, 2, 2}), {true});
  const auto tail = [&](std::size_t rank, std::size_t count) {
    std::string text;
    const std::vector<Action>& list = program.actions[rank];
    for (std::size_t i = list.size() - count; i < list.size(); ++i)
      text += to_string(list[i]) + " ";
    return text;
  };
  CHECK(tail(0, 7) == "0REDUCE_GRAD 2REDUCE_GRAD 0TIED_SEND 0TIED_RECV NORM COMMIT OPTIMIZER ");
  CHECK(tail(1, 7) == "1REDUCE_GRAD 3REDUCE_GRAD 3TIED_SEND 3TIED_RECV NORM COMMIT OPTIMIZER ");
  CHECK(validate(program).is_ok());
}

TEST_CASE("passes: no tied exchange when untied or when one rank holds both ends") {
  for (const Program& program :
       {with_step_end(program_of("1f1b", {2, 2}), {false}),
        with_step_end(program_of("1f1b", {1, 2}), {true}),
        with_step_end(program_of("interleaved_1f1b", {1, 2, 3}), {true})}) {
    for (const std::vector<Action>& list : program.actions)
      for (const Action& action : list) {
        CHECK(action.kind != ActionKind::kTiedSend);
        CHECK(action.kind != ActionKind::kTiedRecv);
      }
    CHECK(validate(program).is_ok());
  }
}

TEST_CASE("passes: middle ranks take no part in the tied exchange") {
  const Program program = with_step_end(program_of("1f1b", {3, 2}), {true});
  const std::vector<Action>& middle = program.actions[1];
  REQUIRE(middle.size() == 4 + 4);
  CHECK(to_string(middle[4]) == "1REDUCE_GRAD");
  CHECK(to_string(middle[5]) == "NORM");
}

TEST_CASE("passes: a forward-only program has no step end") {
  const Program program = program_of("forward_only", {2, 3, 2});
  CHECK(with_step_end(program, {true}) == program);
}

TEST_CASE("passes: transfers stand next to their compute and only between ranks") {
  const Program program = with_transfers(program_of("1f1b", {2, 2}));
  CHECK(to_csv(program) ==
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  CHECK(with_transfers(program) == program);
  const Program alone = program_of("interleaved_1f1b", {1, 2, 3});
  CHECK(with_transfers(alone) == alone);
}

TEST_CASE("passes: a split backward sends its gradient after the input half") {
  const Program program = with_transfers(program_of_rows({"0F0,0I0,0W0", "1F0,1I0,1W0"}, 1, 1));
  CHECK(to_csv(program) == "0F0,0SEND_F0,0RECV_B0,0I0,0W0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n");
}

TEST_CASE("passes: without transfers undoes what with transfers adds") {
  const Program program = program_of("interleaved_1f1b", {2, 4, 2});
  const Program lowered = with_transfers(program);
  CHECK_FALSE(lowered == program);
  CHECK(without_transfers(lowered) == program);
  CHECK(without_transfers(program) == program);
}

TEST_CASE("passes: without pairs keeps every action and its place") {
  Program program = program_of("1f1b", {2, 3});
  const Program apart = program;
  program.actions[0][1].overlaps_next = true;
  program.actions[1][2].overlaps_next = true;
  CHECK_FALSE(program == apart);
  CHECK(without_pairs(program) == apart);
}

TEST_CASE("passes: a pair gets both receives before it and both sends behind it") {
  Program program = program_of("1f1b", {3, 4});  // rank 1: F0 F1 B0 F2 ..
  program.actions[1][1].overlaps_next = true;
  const std::vector<Action> list = with_transfers(program).actions[1];
  std::string text;
  for (std::size_t i = 3; i < 9; ++i) text += to_string(list[i]) + " ";
  CHECK(text == "1RECV_F1 1RECV_B0 1F1 1B0 1SEND_F1 1SEND_B0 ");
  CHECK(list[5].overlaps_next);
  CHECK(without_transfers(with_transfers(program)) == program);
}

TEST_CASE("passes: ascending weights keep a pair together when its weights are deferred") {
  // Backwards descend: the pair keeps its input half, the weights follow once 0 is done.
  Program program;
  program.schedule = "test";
  program.ranks = program.chunks = program.stages = 1;
  program.microbatches = 3;
  for (const char* text : {"0F0", "0F1", "0F2", "0B1", "0B2", "0B0"})
    program.actions.resize(1), program.actions[0].push_back(parse_action(text).value());
  program.actions[0][2].overlaps_next = true;
  const Program sorted = with_ascending_weights(program);
  std::string text;
  for (const Action& action : sorted.actions[0]) text += to_string(action) + " ";
  CHECK(text == "0F0 0F1 0F2 0I1 0I2 0B0 0W1 0W2 ");
  CHECK(sorted.actions[0][2].overlaps_next);
}

}  // namespace
}  // namespace headrace::schedules
