#include "schedules/detail/search_lists.hpp"
#include "schedules/detail/search_moves.hpp"
#include "schedules/passes.hpp"
#include "tests/schedules/programs.hpp"
#include "tests/schedules/search_cases.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>
#include <limits>

namespace headrace::schedules::testing {
namespace {

using schedules::detail::Evaluator;
using schedules::detail::ListRules;
using schedules::detail::make_auto;
using schedules::detail::Orders;
using schedules::detail::Score;
using schedules::detail::SearchModel;

bool is_full_run() { return std::getenv("HEADRACE_FULL") != nullptr; }

constexpr double kTolerance = 1e-9;  // sums of a few hundred times, in another order

void check_not_worse(const Price& found, const Price& named) {
  CHECK(found.span <= named.span + kTolerance);
  if (found.span >= named.span - kTolerance) CHECK(found.makespan <= named.makespan + kTolerance);
}

// Every list of one rank with `count` microbatches in which each kind ascends and F, I, W follow
// each other: the standard Young tableaux of three rows.
void add_lists(std::int32_t count, std::array<std::int32_t, 3> done, std::vector<Action> list,
               std::int32_t stage, std::vector<std::vector<Action>>* lists) {
  constexpr std::array kKinds{ActionKind::kForward, ActionKind::kBackwardInput,
                              ActionKind::kBackwardWeight};
  if (done[2] == count) lists->push_back(list);
  for (std::size_t k = 0; k < 3; ++k) {
    if (done[k] == (k == 0 ? count : done[k - 1])) continue;
    std::vector<Action> longer = list;
    longer.push_back(schedules::detail::make_action(kKinds[k], stage, done[k]));
    std::array<std::int32_t, 3> more = done;
    ++more[k];
    add_lists(count, more, std::move(longer), stage, lists);
  }
}

// The best span over all programs with one stage per rank within the limit.
double best_of_all(const ScheduleSpec& spec) {
  std::vector<std::vector<std::vector<Action>>> choices(static_cast<std::size_t>(spec.ranks));
  for (std::int32_t r = 0; r < spec.ranks; ++r)
    add_lists(spec.microbatches, {0, 0, 0}, {}, r, &choices[Rank{r}.index()]);
  std::vector<std::size_t> picks(choices.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  for (;;) {
    Program program = schedules::detail::empty_program(spec);
    for (std::size_t r = 0; r < picks.size(); ++r) program.actions[r] = choices[r][picks[r]];
    if (validate(program).is_ok() && peak_of(program) <= spec.search.activation_limit)
      best = std::min(best, price_of(program, spec.search).span);
    std::size_t digit = 0;
    while (digit < picks.size() && ++picks[digit] == choices[digit].size()) picks[digit++] = 0;
    if (digit == picks.size()) return best;
  }
}

TEST_CASE("search: the quick price is the one of the simulator") {
  for (const std::int32_t chunks : {1, 2, 4}) {
    ScheduleSpec spec = auto_spec(4, 6, chunks);
    for (std::int32_t s = 0; s < 4 * chunks; ++s)
      spec.search.stages.push_back({1.0 + s % 3, 1.5 + s % 2, 0.7 + 0.1 * s});
    spec.search.hop = 0.3;
    spec.search.activation_limit = 1000;
    for (const Program& program : named_programs(spec)) {
      CAPTURE(program.schedule);
      const SearchModel model(program, spec.search);
      const Orders orders = model.orders_of(program);
      const Program split = model.program_of(orders);
      const Score score = Evaluator(model).run(orders);
      const Price price = price_of(split, spec.search);
      CHECK(score.span == doctest::Approx(price.span).epsilon(kTolerance));
      CHECK(score.makespan == doctest::Approx(price.makespan).epsilon(kTolerance));
    }
  }
}

TEST_CASE("search: an order whose ranks wait for each other has no price") {
  const Program program = program_of_rows({"0I0,0F0,0W0", "1F0,1I0,1W0"}, 1, 1);
  const SearchModel model(program, SearchGoal{});
  CHECK(Evaluator(model).run(model.orders_of(program)).span ==
        std::numeric_limits<double>::infinity());
}

// The validator accepts the order and adds no slot to those it begins with.
bool runs_with_first_slots(const Program& program) {
  const Result<ProgramFacts> facts = validate(program);
  if (!facts.is_ok()) return false;
  for (std::size_t s = 0; s + 1 < facts->stages.size(); ++s)
    if (facts->boundaries[s].activation > std::max(2, facts->stages[s + 1].boundary + 1))
      return false;
  return true;
}

TEST_CASE("search: an order has a price just where its peaks give slots enough") {
  int refused = 0;
  for (const std::int32_t chunks : {1, 2}) {
    ScheduleSpec spec = auto_spec(8, 24, chunks);
    spec.search.stages = {{2, 2, 1}};
    spec.search.activation_limit = 16 * chunks;
    Program shape = schedules::detail::empty_program(spec);
    if (chunks == 2) shape.placement = Placement::kVShape;
    const SearchModel model(shape, spec.search);
    Evaluator evaluator(model);
    for (const double window : {1.0, 1.5, 3.0, schedules::detail::kNoTime}) {
      for (const bool deep_first : {false, true}) {
        for (const double slack : {0.0, 1.0}) {
          ListRules rules;
          rules.window = window;
          rules.deep_first = deep_first;
          rules.forward_slack = slack;
          Orders orders;
          if (!schedules::detail::make_list(model, rules, &orders)) continue;
          evaluator.set_all_slots(orders);
          const bool has_price = evaluator.run(orders).span < schedules::detail::kNoTime;
          CHECK(has_price == runs_with_first_slots(model.program_of(orders)));
          refused += has_price ? 0 : 1;
        }
      }
    }
  }
  CHECK(refused > 0);
}

TEST_CASE("search: local search keeps order and limit and never gets worse") {
  ScheduleSpec spec = auto_spec(3, 6, 2);
  spec.search.stages = {{1, 1.5, 0.5}};
  spec.search.activation_limit = 7;
  Program shape = schedules::detail::empty_program(spec);
  shape.placement = Placement::kVShape;
  const SearchModel model(shape, spec.search);
  Orders orders;
  REQUIRE(schedules::detail::make_list(model, ListRules{}, &orders));
  const Score before = Evaluator(model).run(orders);
  const Score after = schedules::detail::improve(model, 3000, 7, &orders);
  CHECK_FALSE(before.is_better_than(after));
  const Program program = model.program_of(orders);
  CHECK(peak_of(program) <= 7);
  CHECK(with_ascending_weights(program) == program);
}

TEST_CASE("search: auto finds the best of all orders of tiny problems") {
  for (const StageCost cost : {StageCost{1, 1, 1}, StageCost{2, 3, 1}, StageCost{1, 1, 3}}) {
    for (const auto& [ranks, microbatches] : {std::pair{2, 2}, std::pair{2, 3}, std::pair{3, 2}}) {
      for (std::int32_t limit = 1; limit <= 3; ++limit) {
        ScheduleSpec spec = auto_spec(ranks, microbatches, 1);
        spec.search.stages.assign(static_cast<std::size_t>(ranks), cost);
        spec.search.stages.back().backward_input += 0.5;
        spec.search.hop = 0.25;
        spec.search.activation_limit = limit;
        CAPTURE(describe(spec));
        const Program found = make_auto(spec).value();
        CHECK(price_of(found, spec.search).span == doctest::Approx(best_of_all(spec)));
      }
    }
  }
}

TEST_CASE("search: two chunks beat or equal zbv where F I and W differ") {
  int better = 0;
  for (const StageCost cost : {StageCost{2, 3, 1}, StageCost{1, 1, 2}, StageCost{3, 2, 2}}) {
    ScheduleSpec spec = auto_spec(4, 10, 2);
    spec.search.stages = {cost};
    spec.search.hop = 0.125;
    spec.search.activation_limit = 8;  // zbv's own peak
    const Program zbv = program_of("zbv", {4, 10, 2});
    REQUIRE(peak_of(zbv) <= 8);
    const Program found = make_program(spec).value();
    CHECK(found.placement == Placement::kVShape);
    const Price found_price = price_of(found, spec.search);
    const Price zbv_price = price_of(zbv, spec.search);
    check_not_worse(found_price, zbv_price);
    better += found_price.span < zbv_price.span - kTolerance ? 1 : 0;
  }
  CHECK(better >= 2);
}

TEST_CASE("search: auto is never worse than the named schedules within its limit") {
  constexpr unsigned seed = 20240110;
  std::mt19937 random(seed);
  const int cases = is_full_run() ? 2000 : 60;
  for (int i = 0; i < cases; ++i) {
    const ScheduleSpec spec = draw_spec(&random);
    CAPTURE(seed);
    CAPTURE(i);
    CAPTURE(describe(spec));
    const Program found = make_auto(spec).value();
    const std::int32_t stages = spec.ranks * spec.chunks;
    const std::int32_t limit =
        spec.search.activation_limit > 0 ? spec.search.activation_limit : 2 * stages;
    CHECK(peak_of(found) <= limit);
    CHECK(with_ascending_weights(found) == found);
    CHECK(validate(with_transfers(with_step_end(found, StepEnd{}))).is_ok());
    for (const Program& named : named_programs(spec)) {
      CAPTURE(named.schedule);
      if (peak_of(named) <= limit)
        check_not_worse(price_of(found, spec.search), price_of(named, spec.search));
    }
  }
}

TEST_CASE("search: every limit that fits one activation per stage has an order") {
  for (const std::int32_t chunks : {1, 2, 3}) {
    for (std::int32_t limit = chunks; limit <= 2 * 3 * chunks; ++limit) {
      ScheduleSpec spec = auto_spec(3, 5, chunks);
      spec.search.activation_limit = limit;
      CAPTURE(describe(spec));
      const Result<Program> found = make_auto(spec);
      REQUIRE(found.is_ok());
      CHECK(peak_of(found.value()) <= limit);
    }
  }
}

TEST_CASE("search: equal goals give equal programs") {
  for (const std::int32_t chunks : {1, 2, 3}) {
    ScheduleSpec spec = auto_spec(3, 7, chunks);
    spec.search.stages = {{1.3, 1.1, 0.7}};
    spec.search.hop = 0.1;
    spec.search.activation_limit = 4 * chunks;
    CHECK(make_auto(spec).value() == make_auto(spec).value());
  }
}

TEST_CASE("search: more memory never costs time") {
  ScheduleSpec spec = auto_spec(4, 10, 1);
  spec.search.stages = {{1.2, 1.1, 0.6}};
  spec.search.hop = 0.1;
  double last = std::numeric_limits<double>::infinity();
  for (const std::int32_t limit : {1, 2, 4, 6, 8}) {
    spec.search.activation_limit = limit;
    const double span = price_of(make_auto(spec).value(), spec.search).span;
    CAPTURE(limit);
    CHECK(span <= last + kTolerance);
    last = span;
  }
}

TEST_CASE("search: in the global measure no named schedule has a shorter step") {
  std::mt19937 random(20261201);
  int shorter = 0;
  for (int round = 0; round < 40; ++round) {
    ScheduleSpec spec = draw_spec(&random);
    spec.search.measure = SearchMeasure::kGlobal;
    const Result<Program> found = make_auto(spec);
    REQUIRE_MESSAGE(found.is_ok(), found.status().message());
    const double makespan = price_of(*found, spec.search).makespan;
    const std::int32_t limit = spec.search.activation_limit == 0 ? 2 * spec.ranks * spec.chunks
                                                                 : spec.search.activation_limit;
    CAPTURE(describe(spec));
    CHECK(peak_of(*found) <= limit);
    ScheduleSpec by_span = spec;
    by_span.search.measure = SearchMeasure::kSpan;
    const double other = price_of(make_auto(by_span).value(), spec.search).makespan;
    shorter += makespan < other - kTolerance ? 1 : 0;
    for (const Program& named : named_programs(spec))
      if (peak_of(named) <= limit)
        CHECK(makespan <= price_of(named, spec.search).makespan * (1 + kTolerance));
  }
  CHECK(shorter > 0);  // the span measure pays with the makespan
}

TEST_CASE("search: a slow stage leaves only its own work and the way to it") {
  ScheduleSpec spec = auto_spec(4, 12, 1);
  spec.search.stages = {{1, 1, 1}, {1, 1, 1}, {2, 2, 2}, {1, 1, 1}};
  spec.search.activation_limit = 8;
  const Price found = price_of(make_auto(spec).value(), spec.search);
  CHECK(found.span == 12 * 6);  // the slow rank never waits
  CHECK(found.makespan >= 2 + 12 * 6);
  for (const Program& named : named_programs(spec))
    if (peak_of(named) <= 8) check_not_worse(found, price_of(named, spec.search));
  CHECK(found.span < price_of(program_of("1f1b", {4, 12}), spec.search).span);
}

TEST_CASE("search: what the input gradient frees counts against the limit") {
  ScheduleSpec spec = auto_spec(3, 8, 1);
  spec.search.stages = {{1, 1, 0.5}};
  spec.search.activation_limit = 3;
  spec.search.released_at_input = 0.75;
  const Program found = make_auto(spec).value();
  for (const auto& list : found.actions) {
    double held = 0;
    for (const Action& action : list) {
      if (action.kind == ActionKind::kForward) held += 1;
      if (action.kind == ActionKind::kBackwardInput) held -= 0.75;
      if (action.kind == ActionKind::kBackwardWeight) held -= 0.25;
      if (action.kind == ActionKind::kBackward) held -= 1;
      CHECK(held <= 3);
    }
  }
  const Price loose = price_of(found, spec.search);
  spec.search.released_at_input = 0;
  CHECK(loose.span <= price_of(make_auto(spec).value(), spec.search).span);
}

TEST_CASE("search: goals that cannot be met are refused with the numbers") {
  const auto text_of = [](const ScheduleSpec& spec) {
    const Result<Program> result = make_auto(spec);
    REQUIRE_FALSE(result.is_ok());
    CHECK(result.status().code() == StatusCode::kConfig);
    return result.status().message();
  };
  ScheduleSpec spec = auto_spec(4, 8, 2);
  spec.search.activation_limit = 1;
  CHECK(contains(text_of(spec), "the limit is 1 activations per rank"));
  CHECK(contains(text_of(spec), "at least 2"));
  spec.search.activation_limit = -3;
  CHECK(contains(text_of(spec), "the limit is -3"));
  spec.search = SearchGoal{};
  spec.search.stages.resize(5);
  CHECK(contains(text_of(spec), "times for 5 stages, but P x V is 8"));
  spec.search.stages = {{1, -1, 1}};
  CHECK(contains(text_of(spec), "the times of stage 0"));
  spec.search.stages = {{1, std::numeric_limits<double>::quiet_NaN(), 1}};
  CHECK(contains(text_of(spec), "finite"));
  spec.search = SearchGoal{};
  spec.search.hop = std::numeric_limits<double>::infinity();
  CHECK(contains(text_of(spec), "hop latency"));
  spec.search = SearchGoal{};
  spec.search.released_at_input = 1.5;
  CHECK(contains(text_of(spec), "from 0 to 1"));
  spec.search = SearchGoal{};
  spec.search.effort = 0;
  CHECK(contains(text_of(spec), "the effort is 0"));
}

}  // namespace
}  // namespace headrace::schedules::testing
