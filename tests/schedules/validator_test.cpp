#include "schedules/validator.hpp"

#include "schedules/passes.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

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

TEST_CASE("validator: two replicas on an odd number of ranks are refused with the stage") {
  Program program =
      program_of_rows({"0F0,2F1,0B0,2B1", "1F0,1F1,1B0,1B1", "2F0,2B0,0F1,0B1"}, 1, 2);
  program.placement = Placement::kBidirectional;
  CHECK(contains(refusal(program), "would hold both replicas of stage 1"));
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

Program with_pair(Program program, std::size_t rank, std::size_t at) {
  program.actions[rank][at].overlaps_next = true;
  return program;
}

TEST_CASE("validator: a pair needs a forward and the backward of another microbatch behind it") {
  const Program plain = program_of("1f1b", {2, 3});  // rank 0: F0 F1 B0 F2 B1 B2
  CHECK(validate(with_pair(plain, 0, 1)).is_ok());
  CHECK(contains(refusal(with_pair(plain, 0, 0)), "0F0 at rank 0 column 0 begins a pair, but 0F1"));
  CHECK(contains(refusal(with_pair(plain, 0, 2)), "only a forward begins a pair"));
  CHECK(contains(refusal(with_pair(plain, 1, 0)), "begins a pair with 1B0, which depends on it"));
  const Program last = program_of("forward_only", {1, 1});
  CHECK(contains(refusal(with_pair(last, 0, 0)), "nothing follows"));
  Program lowered = with_transfers(with_pair(plain, 0, 1));
  CHECK(validate(lowered).is_ok());
  CHECK(contains(refusal(with_pair(with_transfers(plain), 0, 0)), "0SEND_F0 behind it is no B"));
}

TEST_CASE("validator: a pair waits for both its inputs and two can wait for each other") {
  // One after the other each list runs; as pairs, 0B0 needs 1B0, which comes with 1F1, which needs
  // 0F1, which comes with 0B0.
  Program program = program_of_rows({"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1"}, 1, 2);
  REQUIRE(validate(program).is_ok());
  program.actions[0][1].overlaps_next = true;
  REQUIRE_MESSAGE(validate(without_pairs(program)).is_ok(), "apart");
  program.actions[1][1].overlaps_next = true;
  const std::string text = refusal(program);
  CHECK(contains(text, "rank 0 at 0F1 with 0B0 waits for 1B0"));
  CHECK(contains(text, "rank 1 at 1F1 with 1B0 waits for 0F1"));
  CHECK(contains(refusal(with_transfers(program)), "deadlock"));
}

TEST_CASE("validator: C37 a table of stages must give every rank its share") {
  Program program = program_of("zbv", {4, 8, 2});
  program.placement = Placement::kTable;
  for (std::int32_t s = 0; s < 8; ++s) program.stage_ranks.push_back(Rank{s < 4 ? s : 7 - s});
  CHECK(validate(program).is_ok());
  const Program lowered = with_transfers(with_step_end(program, {true}));
  CHECK(validate(lowered).is_ok());
  // Stages 3 and 4 share rank 3: a local hand-over. Both tied ends are on rank 0.
  for (const std::vector<Action>& list : lowered.actions)
    for (const Action& action : list) {
      CHECK(to_string(action).find("TIED") == std::string::npos);
      CHECK_FALSE((action.kind == ActionKind::kSendForward && action.stage.value == 3));
      CHECK_FALSE((action.kind == ActionKind::kRecvForward && action.stage.value == 4));
      CHECK_FALSE((action.kind == ActionKind::kSendBackward && action.stage.value == 4));
    }
  Program uneven = program;
  uneven.stage_ranks[7] = Rank{1};
  CHECK(contains(refusal(uneven), "rank 0 holds 1 stages, every rank must hold V=2"));
  uneven.stage_ranks[7] = Rank{4};
  CHECK(contains(refusal(uneven), "stage 7 is placed on rank 4, ranks are 0..3"));
  uneven.stage_ranks.pop_back();
  CHECK(contains(refusal(uneven), "has 7 entries"));
}

TEST_CASE("validator: two replicas fold a stage only after everything is computed") {
  const Program program = with_step_end(program_of("chimera", {2, 2}), {true});
  REQUIRE_MESSAGE(validate(program).is_ok(), validate(program).status().message());
  int folds = 0;
  for (const std::vector<Action>& list : program.actions)
    for (const Action& action : list) {
      folds += action.kind == ActionKind::kReduceGrad ? 1 : 0;
      CHECK(action.kind != ActionKind::kTiedSend);
    }
  CHECK(folds == 4);
  Program early = program;
  std::vector<Action>& list = early.actions[0];
  const auto last = std::find_if(list.rbegin(), list.rend(),
                                 [](const Action& action) { return is_compute(action.kind); });
  const auto fold = std::find_if(list.begin(), list.end(), [&](const Action& action) {
    return action.kind == ActionKind::kReduceGrad && action.stage != last->stage;
  });
  REQUIRE(fold != list.end());
  const Action moved = *fold;
  const auto place = last.base() - 1 - list.begin();
  list.erase(fold);
  list.insert(list.begin() + place, moved);
  CHECK(contains(refusal(early), "waits for the stage's other replica"));
}

TEST_CASE("validator: findings come one by one with rank and cell and none is left out") {
  CHECK(find_faults(program_of("dualpipe", {4, 8})).empty());
  Program program = program_of("gpipe", {2, 10});
  for (std::vector<Action>& list : program.actions) list.resize(10);
  const std::vector<Finding> missing = find_faults(program);
  REQUIRE(missing.size() == 20);
  CHECK(missing[0].text == "0B0 (or its halves I and W) is missing on rank 0");
  CHECK(missing[19].rank == Rank{1});
  CHECK(missing[19].cell == -1);
  const std::vector<Finding> cycle =
      find_faults(program_of_rows({"0F0,0B0,0F1,0B1", "1F1,1B1,1F0,1B0"}, 1, 2));
  REQUIRE(cycle.size() == 2);
  CHECK(cycle[0].rank == Rank{0});
  CHECK(cycle[0].cell == 1);
  CHECK(contains(cycle[0].text, "rank 0 at 0B0 waits for 1B0"));
  CHECK(cycle[1].rank == Rank{1});
  CHECK(cycle[1].cell == 0);
  CHECK(cycle[1].text == "rank 1 at 1F1 waits for 0F1");
}

TEST_CASE(
    "validator: findings about a whole program have no rank and a long list ends in a count") {
  Program shapeless = program_of("gpipe", {2, 4});
  shapeless.stages = 3;
  const std::vector<Finding> shape = find_faults(shapeless);
  REQUIRE(shape.size() == 1);
  CHECK(shape[0].rank == Rank{-1});
  CHECK(shape[0].cell == -1);
  Program empty = program_of("gpipe", {2, 600});
  for (std::vector<Action>& list : empty.actions) list.clear();
  const std::vector<Finding> missing = find_faults(empty);
  REQUIRE(missing.size() == 1001);
  CHECK(missing[999].rank == Rank{0});
  CHECK(missing[1000].rank == Rank{-1});
  CHECK(missing[1000].text == "and 1400 more");
}

TEST_CASE("validator: C40 a transfer without partner or twice or in place of none is named") {
  const auto first = [](const std::vector<std::string>& rows, std::int32_t chunks) {
    const std::vector<Finding> found = find_faults(program_of_rows(rows, chunks, 1));
    REQUIRE_FALSE(found.empty());
    return found.front();
  };
  // In a compute-only list.
  CHECK(contains(first({"0F0,0SEND_F0,0B0", "1F0,1B0"}, 1).text, "is missing on rank"));
  const Finding lonely = first({"0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1B0,1SEND_B0"}, 1);
  CHECK(lonely.text == "1RECV_F0 is missing on rank 1, 0SEND_F0 has no partner");
  CHECK(lonely.rank == Rank{0});
  CHECK(lonely.cell == 1);
  const Finding twice =
      first({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0"}, 1);
  CHECK(contains(twice.text, "1RECV_F0 at rank 1 column 1 stands twice"));
  CHECK(twice.cell == 1);
  CHECK(contains(first({"0F0,0SEND_F0,0B0"}, 1).text, "no stage beyond 0"));
  CHECK(contains(first({"0F0,0SEND_F0,1F0,1B0,0B0"}, 2).text, "on the same rank"));
}

TEST_CASE("validator: C13 fewer microbatches than ranks keep their peaks or are refused by name") {
  for (std::int32_t m = 1; m <= 3; ++m)
    for (const ScheduleInfo& info : list_schedules()) {
      if (info.name == "auto") continue;
      CAPTURE(std::string(info.name));
      CAPTURE(m);
      const Result<Program> program =
          make_program(testing::spec_of(info.name, {4, m, info.chunks == 0 ? 1 : info.chunks}));
      if (!program.is_ok()) {
        CHECK(contains(program.status().message(), "M=" + std::to_string(m)));
        continue;
      }
      const Result<ProgramFacts> facts = validate(*program);
      REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
      if (info.name != "1f1b") continue;
      for (std::int32_t r = 0; r < 4; ++r)
        CHECK(facts->peak_activations[Rank{r}.index()] == std::min(m, 4 - r));
    }
  CHECK_FALSE(make_program(testing::spec_of("dualpipev", {4, 3, 2})).is_ok());
}

TEST_CASE("validator: C26 backwards of a gpipe last stage may come in either order") {
  for (bool descending : {false, true}) {
    ScheduleSpec spec = testing::spec_of("gpipe", {2, 4});
    spec.descending_backward = descending;
    const Program program = make_program(spec).value();
    const Result<ProgramFacts> facts = validate(program);
    REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
    CHECK(facts->stages[1].stash == 4);  // one for each microbatch
  }
}

TEST_CASE("validator: C35 C36 peaks of known programs") {
  const auto peaks = [](std::string_view name, testing::Shape shape) {
    return validate(program_of(name, shape)).value().peak_activations;
  };
  using Peaks = std::vector<std::int32_t>;
  CHECK(peaks("1f1b", {4, 8}) == Peaks{4, 3, 2, 1});
  CHECK(peaks("gpipe", {4, 8}) == Peaks{8, 8, 8, 8});
  CHECK(peaks("zb_h1", {4, 8}) == Peaks{4, 4, 4, 4});
  CHECK(peaks("interleaved_1f1b", {2, 4, 2}) == Peaks{5, 3});
  for (std::int32_t m : {2, 3, 5, 6, 7, 8, 9, 10})
    CHECK(make_program(testing::spec_of("interleaved_1f1b", {4, m, 2})).is_ok() == (m != 9));
}

TEST_CASE("validator: C44 pairs and halves of dualpipev are computation and fit their peak") {
  const Result<ProgramFacts> facts = validate(program_of("dualpipev", {4, 10, 2}));
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(*std::max_element(facts->peak_activations.begin(), facts->peak_activations.end()) == 9);
}

TEST_CASE("validator: bytes of the three lifetimes follow a program counted by hand") {
  const Program program = program_of_rows({"0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2",  //
                                           "1F0,1B0,1F1,1I1,1W1,1F2,1B2"},
                                          1, 3);
  const std::vector<StageBytes> stages{{1, 10, 100}, {2, 20, 200}};
  const std::vector<LifetimeBytes> peaks = peak_bytes(program, stages);
  REQUIRE(peaks.size() == 2);
  // Rank 0 at 0I1: two stashes of stage 0 and the weight inputs of two microbatches.
  CHECK(peaks[0] == LifetimeBytes{2, 20, 200, 222});
  CHECK(peaks[1] == LifetimeBytes{2, 20, 200, 222});
  // A receive ahead of its forward holds its boundary longer.
  const Program ahead = program_of_rows({"0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
                                         "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1"},
                                        1, 2);
  CHECK(peak_bytes(ahead, stages)[1] == LifetimeBytes{4, 20, 200, 224});
}

TEST_CASE("validator: bytes with one byte a stash equal the peak of stashes on every shape") {
  for (std::string_view name : {"gpipe", "1f1b", "zb_h1", "zb_h2", "chimera", "dualpipe"})
    for (std::int32_t p : {2, 4})
      for (std::int32_t m : {2 * p, 4 * p}) {
        const Program program = program_of(name, {p, m});
        const std::vector<StageBytes> stages(static_cast<std::size_t>(p), {0, 1, 0});
        const std::vector<LifetimeBytes> peaks = peak_bytes(program, stages);
        for (std::int32_t r = 0; r < p; ++r) {
          std::int64_t held = 0;
          std::int64_t most = 0;
          for (const Action& action : program.actions[Rank{r}.index()]) {
            if (action.kind == ActionKind::kForward) most = std::max(most, ++held);
            if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput)
              --held;
          }
          CHECK(peaks[Rank{r}.index()] == LifetimeBytes{0, most, 0, most});
        }
      }
}

}  // namespace
}  // namespace headrace::schedules
