#include "schedules/validator.hpp"

#include "schedules/passes.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace headrace::schedules {
namespace {

using testing::contains;
using testing::program_of;
using testing::program_of_rows;

std::string refusal(const Program& program) {
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_FALSE(facts.is_ok());
  CHECK(facts.status().code() == StatusCode::kConfig);
  INFO(facts.status().message());
  CHECK(contains(facts.status().message(), "cannot run"));
  return facts.status().message();
}

TEST_CASE("case C10: two ranks that wait for each other are refused with the cycle") {
  const Program program = program_of_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"}, 1, 2);
  const std::string text = refusal(program);
  CHECK(contains(text, "rank 0 at 0B0 waits for 1B0; rank 1 at 1F1 waits for 0F1"));
  CHECK(contains(text, "rank 0, from column 0: 0F0 >0B0< 0F1 0B1"));
  CHECK(contains(text, "rank 1, from column 0: >1F1< 1B1 1F0 1B0"));
  CHECK(contains(refusal(with_transfers(program)),
                 "rank 0 at 0RECV_B0 waits for 1SEND_B0; rank 1 at 1RECV_F1 waits for 0SEND_F1"));
}

TEST_CASE("case C10: the same cells in an order that buffered sends allow are accepted") {
  CHECK(validate(program_of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                  "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1"},
                                 1, 2))
            .is_ok());
}

TEST_CASE("validator: the smallest of several cycles is shown") {
  // Ranks 0 and 1 wait for each other; ranks 2 and 3 wait for rank 1.
  const std::string text = refusal(program_of_rows(
      {"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0", "2F0,2B0,2F1,2B1", "3F0,3B0,3F1,3B1"}, 1, 2));
  CHECK(contains(text, "rank 1 at 1F1 waits for 0F1"));
  CHECK_FALSE(contains(text, "rank 2 at"));
}

TEST_CASE("validator: a stage below that stands later in the same list is a cycle of one") {
  const std::string text = refusal(program_of_rows({"1F0,0F0,1B0,0B0"}, 2, 1));
  CHECK(contains(text, "rank 0 at 1F0 waits for 0F0, later in the same list"));
}

TEST_CASE("validator: a boundary gets the slots its program needs to go on") {
  // Rank 3 runs through 3F0 to 3F6 before it turns to what rank 0 waits for: more than the peak of
  // stage 4 and a look-ahead.
  const ProgramFacts facts = validate(testing::program_of("interleaved_zb", {4, 7, 2})).value();
  CHECK(facts.stages[4].boundary == 4);
  CHECK(facts.boundaries[3].activation == 7);
}

TEST_CASE("validator: a cycle that no slot would break names the actions only") {
  const Program program = program_of_rows({"0F0,0F1,0F2,2F2,0B2,2B2,2F0,2B0,0B0,2F1,2B1,0B1",  //
                                           "1F2,3F2,3B2,1B2,1F0,3F0,3B0,1B0,1F1,3F1,3B1,1B1"},
                                          2, 3);
  const std::string text = refusal(program);
  CHECK(contains(text, "deadlock, whatever the timing"));
  CHECK(contains(text, "rank 0 at 0B2 waits for 1B2"));
  CHECK_FALSE(contains(text, "slot"));
}

TEST_CASE("validator: receives out of the order of the sends are refused with the link") {
  const std::string text = refusal(program_of_rows({"0F0,0F1,0B0,0B1", "1F1,1F0,1B0,1B1"}, 1, 2));
  CHECK(contains(text, "the activation link from rank 0 to rank 1 is out of order"));
  CHECK(contains(text, "1F1 takes message 0 but its data is sent as message 1"));
  const std::string back = refusal(program_of_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B1,1B0"}, 1, 2));
  CHECK(contains(back, "the gradient link from rank 1 to rank 0 is out of order"));
}

TEST_CASE("validator: missing repeated and misplaced actions are named with their cells") {
  CHECK(contains(refusal(program_of_rows({"0F0,0F1,0B0", "1F0,1F1,1B0,1B1"}, 1, 2)),
                 "0B1 (or its halves I and W) is missing on rank 0"));
  const std::string twice = refusal(program_of_rows({"0F0,0B0,0F0"}, 1, 1));
  CHECK(contains(twice, "0F0 at rank 0 column 2 stands twice, first at column 0"));
  CHECK(contains(twice, ">0F0< 0B0 >0F0<"));
  CHECK(contains(refusal(program_of_rows({"0F0,0B0,1F0", "1B0"}, 1, 1)),
                 "1F0 at rank 0 column 2 belongs to rank 1"));
  CHECK(contains(refusal(program_of_rows({"0F0,0B0,7F0"}, 1, 1)), "a stage outside 0..0"));
  CHECK(contains(refusal(program_of_rows({"0F0,0B0,0F9"}, 1, 1)), "a microbatch outside 0..0"));
}

TEST_CASE("validator: halves and the full backward exclude each other and keep their order") {
  CHECK(validate(program_of_rows({"0F0,0I0,0W0"}, 1, 1)).is_ok());
  CHECK(contains(refusal(program_of_rows({"0F0,0I0"}, 1, 1)), "0W0 is missing"));
  CHECK(contains(refusal(program_of_rows({"0F0,0W0"}, 1, 1)), "0I0 is missing"));
  CHECK(contains(refusal(program_of_rows({"0F0,0B0,0I0"}, 1, 1)), "already does what 0I0"));
  CHECK(contains(refusal(program_of_rows({"0F0,0B0,0W0"}, 1, 1)), "already does what 0W0"));
  CHECK(contains(refusal(program_of_rows({"0F0,0W0,0I0"}, 1, 1)), "stands before 0I0"));
  CHECK(contains(refusal(program_of_rows({"0B0,0F0"}, 1, 1)), "0B0 at rank 0 column 0 stands"));
}

TEST_CASE("validator: many findings are told in part and counted") {
  Program program = program_of("gpipe", {2, 10});
  for (std::vector<Action>& list : program.actions) list.resize(10);
  const std::string text = refusal(program);
  CHECK(contains(text, "and 16 more"));
  CHECK(text.size() < 1000);
}

TEST_CASE("validator: shapes that do not fit are refused before the cells are read") {
  Program program = program_of("1f1b", {2, 2});
  const auto broken = [&](auto change) {
    Program copy = program;
    change(copy);
    return refusal(copy);
  };
  CHECK(contains(broken([](Program& p) { p.ranks = 0; }), "at least 1"));
  CHECK(contains(broken([](Program& p) { p.microbatches = 0; }), "at least 1"));
  CHECK(contains(broken([](Program& p) { p.chunks = 3; }), "S=6"));
  CHECK(contains(broken([](Program& p) { p.stages = 1; }), "S=2"));
  CHECK(contains(broken([](Program& p) { p.actions.pop_back(); }), "1 lists"));
  CHECK(contains(broken([](Program& p) { p.microbatches = 2'000'000'000; }), "at most 10000000"));
}

TEST_CASE("validator: transfers without need or partner or in the wrong place are refused") {
  CHECK(contains(refusal(program_of_rows({"0F0,0SEND_F0,0B0"}, 1, 1)),
                 "0SEND_F0 has nothing to move: there is no stage beyond 0"));
  CHECK(contains(refusal(program_of_rows({"0F0,0SEND_F0,1F0,1B0,0B0"}, 2, 1)),
                 "stages 0 and 1 are on the same rank"));
  const std::string lonely =
      refusal(program_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"}, 1, 1));
  CHECK(contains(lonely, "1RECV_F0 is missing on rank 1, 0SEND_F0 has no partner"));
  CHECK(contains(lonely, ">0SEND_F0<"));
  CHECK(contains(refusal(program_of_rows({"0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1, 1)),
                 "0SEND_F0 is missing on rank 0"));
  CHECK(contains(
      refusal(program_of_rows({"0SEND_F0,0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"}, 1, 1)),
      "0SEND_F0 must stand after the action that makes it"));
  CHECK(contains(
      refusal(program_of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"}, 1, 1)),
      "1RECV_F0 must stand before the action that uses it"));
  CHECK(contains(refusal(program_of_rows(
                     {"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0"}, 1, 1)),
                 "stands twice"));
}

TEST_CASE("validator: a forward-only program has forwards and nothing else") {
  Program program = program_of("forward_only", {2, 2});
  CHECK(validate(program).is_ok());
  Program backward = program;
  backward.actions[0].push_back(parse_action("0B0").value());
  CHECK(contains(refusal(backward), "0B0 at rank 0 column 2 has no place in a forward-only"));
  Program end = program;
  end.actions[0].push_back(parse_action("NORM").value());
  CHECK(contains(refusal(end), "step's end"));
  Program gradient = with_transfers(program);
  gradient.actions[1].push_back(parse_action("1SEND_B0").value());
  CHECK(contains(refusal(gradient), "a forward-only program has no gradients"));
}

TEST_CASE("validator: a step end that is not whole or in order is refused") {
  const Program whole = with_step_end(program_of("1f1b", {2, 2}), {true});
  REQUIRE(validate(whole).is_ok());
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (std::size_t at = 4; at < whole.actions[rank].size(); ++at) {
      Program dropped = whole;
      std::vector<Action>& list = dropped.actions[rank];
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      refusal(dropped);
      Program twice = whole;
      twice.actions[rank].push_back(whole.actions[rank][at]);
      CHECK(contains(refusal(twice), "stands twice"));
      Program early = whole;
      std::rotate(early.actions[rank].begin(),
                  early.actions[rank].begin() + static_cast<std::ptrdiff_t>(at),
                  early.actions[rank].begin() + static_cast<std::ptrdiff_t>(at + 1));
      refusal(early);
    }
  Program stranger = whole;
  stranger.actions[0].insert(stranger.actions[0].begin() + 4, parse_action("1REDUCE_GRAD").value());
  CHECK(contains(refusal(stranger), "does not hold that stage"));
  Program tied = with_step_end(program_of("1f1b", {1, 1}), {false});
  tied.actions[0].insert(tied.actions[0].begin() + 3, parse_action("0TIED_SEND").value());
  CHECK(contains(refusal(tied), "tied"));
}

TEST_CASE("validator: two ends that both receive before they send are a deadlock") {
  Program program = with_step_end(program_of("1f1b", {2, 1}), {true});
  for (std::vector<Action>& list : program.actions) std::swap(list[3], list[4]);
  CHECK(contains(refusal(program),
                 "rank 0 at 0TIED_RECV waits for 1TIED_SEND; rank 1 at 1TIED_RECV waits for "
                 "0TIED_SEND"));
}

TEST_CASE("validator: peaks follow their definitions in a program counted by hand") {
  const Program program = program_of_rows({"0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2",  //
                                           "1F0,1B0,1F1,1I1,1W1,1F2,1B2"},
                                          1, 3);
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(facts->stages[0].stash == 2);
  CHECK(facts->stages[0].activation == 3);
  CHECK(facts->stages[0].weight_inputs == 2);
  CHECK(facts->stages[1].boundary == 1);
  CHECK(facts->stages[1].stash == 1);
  CHECK(facts->stages[1].weight_inputs == 1);
  CHECK(facts->peak_activations == std::vector<std::int32_t>{3, 1});
  CHECK(facts->boundaries.size() == 1);
  CHECK(facts->boundaries[0].activation == 2);
  CHECK(facts->boundaries[0].gradient == 2);
  CHECK(facts->action_count == 16);
}

TEST_CASE("validator: a boundary inside a rank counts from the producer") {
  const Result<ProgramFacts> facts =
      validate(program_of_rows({"0F0,0F1,0F2,1F0,1B0,1F1,1B1,1F2,1B2,0B0,0B1,0B2"}, 2, 3));
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(facts->stages[1].stash == 1);
  CHECK(facts->stages[1].boundary == 3);
  CHECK(facts->boundaries[0].activation == 4);
  CHECK(facts->boundaries[0].gradient == 4);
}

TEST_CASE("validator: a bidirectional program runs both ways over the same ranks") {
  Program program = program_of_rows({"0F0,1F1,1B1,0B0", "0F1,1F0,1B0,0B1"}, 1, 2);
  program.placement = Placement::kBidirectional;
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(facts->peak_activations == std::vector<std::int32_t>{2, 2});
  CHECK(validate(with_step_end(with_transfers(program), {true})).is_ok());
}

}  // namespace
}  // namespace headrace::schedules
