// Sweeps over every schedule and many shapes, and seeded mutations judged by a slow second opinion.
#include "schedules/csv.hpp"
#include "schedules/passes.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <tuple>

namespace headrace::schedules {
namespace {

using testing::program_of;
using testing::spec_of;

// Calls fn(program) for every schedule that accepts the shape, P <= 8, M <= 12, V <= 4.
template <typename Function>
int sweep(Function fn) {
  int programs = 0;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;  // a search per shape; search_test has its own sweep
    for (std::int32_t p = 1; p <= 8; ++p)
      for (std::int32_t m = 1; m <= 12; ++m)
        for (std::int32_t v = 1; v <= 4; ++v)
          for (bool reverse : {false, true}) {
            ScheduleSpec spec = spec_of(info.name, {p, m, v});
            spec.descending_backward = reverse;
            const Result<Program> program = make_program(spec);
            if (!program.is_ok()) continue;
            ++programs;
            CAPTURE(info.name);
            CAPTURE(p);
            CAPTURE(m);
            CAPTURE(v);
            fn(*program);
          }
  }
  return programs;
}

TEST_CASE("sweep: every schedule and shape is valid bare lowered and with the step end") {
  const int programs = sweep([](const Program& program) {
    const Result<ProgramFacts> facts = validate(program);
    REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
    const Program lowered = with_transfers(with_step_end(program, {true}));
    const Result<ProgramFacts> lowered_facts = validate(lowered);
    REQUIRE_MESSAGE(lowered_facts.is_ok(), lowered_facts.status().message());
    CHECK(lowered_facts->peak_activations == facts->peak_activations);
    std::size_t count = 0;
    for (const std::vector<Action>& list : lowered.actions) count += list.size();
    CHECK(lowered_facts->action_count == static_cast<std::int64_t>(count));
    const Result<ProgramFacts> ascending =
        validate(with_transfers(with_step_end(with_ascending_weights(program), {true})));
    CHECK_MESSAGE(ascending.is_ok(), ascending.status().message());
  });
  CHECK(programs > 8 * 12 * (1 + 2 + 4));
}

TEST_CASE("sweep: every simulated step respects order dependencies and the accounts") {
  sweep([](const Program& program) {
    const Simulation run = simulate(program, {});
    double busy = 0;
    for (std::size_t r = 0; r < program.actions.size(); ++r) {
      REQUIRE(run.timeline[r].size() == program.actions[r].size());
      double last = 0;
      double block = 0;
      bool is_paired = false;  // the second of a pair has the times of the block
      for (const SimulatedAction& action : run.timeline[r]) {
        CHECK(is_paired ? action.start == block : action.start >= last);
        block = action.start;
        last = action.end;
        is_paired = action.action.overlaps_next;
      }
      CHECK(run.busy[r] + run.idle[r] == run.makespan);
      busy += run.busy[r];
    }
    const double per_cell = program.forward_only ? 1 : 3;
    CHECK(busy == per_cell * program.stages * program.microbatches);
    CHECK(run.bubble_span <= run.bubble_global + 1e-12);
  });
}

TEST_CASE("sweep: 1f1b boundaries hold what the stages above keep in flight plus one") {
  for (std::int32_t p = 2; p <= 8; ++p)
    for (std::int32_t m = 1; m <= 12; ++m) {
      const ProgramFacts facts = validate(program_of("1f1b", {p, m})).value();
      for (std::int32_t s = 0; s + 1 < p; ++s) {
        const BoundarySlots& slots = facts.boundaries[StageIndex{s}.index()];
        CHECK(slots.activation == std::min(m, p - s - 1) + 1);
        CHECK(slots.gradient == 2);
      }
    }
}

// The second opinion: exactly once, order in the cell, links by comparing lists, and progress by
// trying all ranks again and again. Slots do not enter: the facts give as many as progress needs,
// which RandomTiming tests. Slow and without indices. Compute-only programs.
class SecondOpinion {
 public:
  explicit SecondOpinion(const Program& program) : program_(program) {}

  bool accepts() const { return is_complete() && pairs_fit() && links_in_order() && runs(); }

 private:
  using Key = std::tuple<ActionKind, std::int32_t, std::int32_t>;
  static Key key(ActionKind kind, std::int32_t s, std::int32_t m) { return {kind, s, m}; }

  static bool is_gradient(ActionKind kind) {
    return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
  }

  bool is_complete() const {
    std::set<Key> seen;
    std::size_t cells = 0;
    for (std::size_t r = 0; r < program_.actions.size(); ++r)
      for (const Action& a : program_.actions[r]) {
        const std::int32_t s = a.stage.value;
        const std::int32_t m = a.microbatch.value;
        if (program_.rank_of(a.stage, a.microbatch).index() != r) return false;
        if (is_gradient(a.kind) && !seen.contains(key(ActionKind::kForward, s, m))) return false;
        const bool is_weight = a.kind == ActionKind::kBackwardWeight;
        if (is_weight && !seen.contains(key(ActionKind::kBackwardInput, s, m))) return false;
        if (!seen.insert(key(a.kind, s, m)).second) return false;
        const bool ends = a.kind == ActionKind::kBackward || is_weight;
        if (program_.forward_only ? a.kind == ActionKind::kForward : ends) ++cells;
        if (ends && seen.contains(
                        key(is_weight ? ActionKind::kBackward : ActionKind::kBackwardInput, s, m)))
          return false;
      }
    return cells == static_cast<std::size_t>(program_.stages * program_.microbatches);
  }

  // (stage, microbatch) of what moves from rank `from` to rank `to`, in the order `at` runs it.
  std::vector<Key> moves(std::size_t at, std::size_t from, std::size_t to, bool gradient) const {
    const std::int32_t step = gradient ? -1 : 1;
    std::vector<Key> out;
    for (const Action& a : program_.actions[at]) {
      if (gradient ? !is_gradient(a.kind) : a.kind != ActionKind::kForward) continue;
      const std::int32_t source = at == from ? a.stage.value : a.stage.value - step;
      const std::int32_t target = source + step;
      if (source < 0 || target < 0 || source >= program_.stages || target >= program_.stages)
        continue;
      if (program_.rank_of(StageIndex{source}, a.microbatch).index() == from &&
          program_.rank_of(StageIndex{target}, a.microbatch).index() == to)
        out.push_back(key(ActionKind::kForward, source, a.microbatch.value));
    }
    return out;
  }

  bool links_in_order() const {
    const std::size_t ranks = program_.actions.size();
    for (std::size_t from = 0; from < ranks; ++from)
      for (std::size_t to = 0; to < ranks; ++to)
        for (bool gradient : {false, true})
          if (from != to && moves(from, from, to, gradient) != moves(to, from, to, gradient))
            return false;
    return true;
  }

  bool pairs_fit() const {
    for (const std::vector<Action>& list : program_.actions)
      for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].overlaps_next &&
            (list[i].kind != ActionKind::kForward || i + 1 == list.size() ||
             !is_gradient(list[i + 1].kind) || list[i].microbatch == list[i + 1].microbatch))
          return false;
    return true;
  }

  bool runs() const {
    std::set<Key> done;
    std::vector<std::size_t> next(program_.actions.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next.size(); ++r) {
        if (next[r] == program_.actions[r].size()) continue;
        const Action& a = program_.actions[r][next[r]];
        const std::size_t end = next[r] + (a.overlaps_next ? 2 : 1);
        bool can = true;
        for (std::size_t i = next[r]; i < end; ++i)
          can = can && can_run(program_.actions[r][i], done);
        if (!can) continue;
        for (; next[r] < end; ++next[r]) {
          const Action& b = program_.actions[r][next[r]];
          done.insert(key(b.kind, b.stage.value, b.microbatch.value));
        }
        moved = true;
      }
    }
    for (std::size_t r = 0; r < next.size(); ++r)
      if (next[r] != program_.actions[r].size()) return false;
    return true;
  }

  bool can_run(const Action& a, const std::set<Key>& done) const {
    const std::int32_t s = a.stage.value;
    const std::int32_t m = a.microbatch.value;
    if (a.kind == ActionKind::kBackwardWeight) return true;
    if (a.kind == ActionKind::kForward)
      return s == 0 || done.contains(key(ActionKind::kForward, s - 1, m));
    return s + 1 == program_.stages || done.contains(key(ActionKind::kBackward, s + 1, m)) ||
           done.contains(key(ActionKind::kBackwardInput, s + 1, m));
  }

  const Program& program_;
};

constexpr unsigned kSeed = 20240611;

// A program whose stages are all on different neighbours' ranks (P >= 2), so that the second
// opinion's rule for capacities applies.
Program random_program(std::mt19937* random) {
  const auto infos = list_schedules();
  for (;;) {
    const ScheduleSpec spec = spec_of(infos[(*random)() % infos.size()].name,
                                      {static_cast<std::int32_t>(2 + (*random)() % 3),
                                       static_cast<std::int32_t>(1 + (*random)() % 5),
                                       static_cast<std::int32_t>(1 + (*random)() % 2)});
    if (spec.name == "auto") continue;
    const Result<Program> program = make_program(spec);
    if (program.is_ok()) return *program;
  }
}

TEST_CASE("mutation: a dropped or duplicated or moved action is always refused") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    const Program whole = random_program(&random);
    const std::size_t rank = random() % whole.actions.size();
    const std::size_t at = random() % whole.actions[rank].size();
    const auto offset = static_cast<std::ptrdiff_t>(at);
    CAPTURE(to_csv(whole));

    Program dropped = whole;
    dropped.actions[rank].erase(dropped.actions[rank].begin() + offset);
    CHECK_FALSE(validate(dropped).is_ok());

    Program twice = whole;
    const auto other = static_cast<std::ptrdiff_t>(random() % (whole.actions[rank].size() + 1));
    twice.actions[rank].insert(twice.actions[rank].begin() + other, whole.actions[rank][at]);
    CHECK_FALSE(validate(twice).is_ok());

    Program moved = dropped;
    moved.actions[(rank + 1) % moved.actions.size()].push_back(whole.actions[rank][at]);
    CHECK_FALSE(validate(moved).is_ok());
  }
}

TEST_CASE("mutation: a dropped or duplicated action of a lowered program is always refused") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 2000; ++round) {
    const Program whole = with_transfers(with_step_end(random_program(&random), {true}));
    const std::size_t rank = random() % whole.actions.size();
    const std::size_t at = random() % whole.actions[rank].size();
    CAPTURE(to_csv(whole));
    Program dropped = whole;
    dropped.actions[rank].erase(dropped.actions[rank].begin() + static_cast<std::ptrdiff_t>(at));
    CHECK_FALSE(validate(dropped).is_ok());
    Program twice = whole;
    twice.actions[rank].push_back(whole.actions[rank][at]);
    CHECK_FALSE(validate(twice).is_ok());
  }
}

TEST_CASE("mutation: after random swaps the verdict equals a slow second opinion") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    Program program = random_program(&random);
    const int swaps = static_cast<int>(random() % 3);
    for (int i = 0; i <= swaps; ++i) {
      std::vector<Action>& list = program.actions[random() % program.actions.size()];
      const std::size_t at = random() % list.size();
      // Neighbours often stay valid, distant ones seldom: both kinds of verdict are wanted.
      const std::size_t other =
          random() % 2 == 0 ? random() % list.size() : std::min(at + 1, list.size() - 1);
      std::swap(list[at], list[other]);
    }
    const Result<ProgramFacts> facts = validate(program);
    CAPTURE(to_csv(program));
    CHECK_MESSAGE(facts.is_ok() == SecondOpinion(program).accepts(), facts.status().message());
    ++(facts.is_ok() ? accepted : refused);
  }
  CHECK(accepted > 300);
  CHECK(refused > 300);
}

// Runs a compute-only program on the slots of `facts`, each time with a rank drawn by chance that
// can run its next action; an action takes its slots when it starts and gives them back when it
// ends, and a rank may stay between the two for long. True when every list comes to its end.
class RandomTiming {
 public:
  RandomTiming(const Program& program, const ProgramFacts& facts, std::mt19937* random)
      : program_(program),
        facts_(facts),
        random_(random),
        next_(program.actions.size(), 0),
        is_started_(program.actions.size(), false),
        activations_(2 * facts.boundaries.size(), 0),
        gradients_(2 * facts.boundaries.size(), 0) {}

  bool completes() {
    for (;;) {
      std::vector<std::size_t> able;
      for (std::size_t r = 0; r < next_.size(); ++r)
        if (next_[r] < program_.actions[r].size() && (is_started_[r] || can_start(at(r))))
          able.push_back(r);
      if (able.empty()) break;
      // A strong bias makes some ranks run far ahead of the others.
      const std::size_t pick = (*random_)() % 4 == 0 ? (*random_)() % able.size() : 0;
      const std::size_t r = able[pick];
      is_started_[r] ? end(at(r)) : start(at(r));
      if (is_started_[r]) ++next_[r];
      is_started_[r] = !is_started_[r];
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < program_.actions[r].size()) return false;
    return true;
  }

 private:
  const Action& at(std::size_t rank) const { return program_.actions[rank][next_[rank]]; }
  static bool is_gradient(const Action& a) {
    return a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardInput;
  }
  bool has(bool gradient, std::int32_t stage, std::int32_t m) const {
    return done_.contains({gradient, stage, m});
  }

  // Each direction of a bidirectional placement has slots of its own.
  std::size_t slot(std::int32_t lower, std::int32_t m) const {
    const bool second =
        program_.placement == Placement::kBidirectional && m >= program_.microbatches / 2;
    return 2 * static_cast<std::size_t>(lower) + (second ? 1 : 0);
  }
  bool has_above(std::int32_t s) const { return s + 1 < program_.stages; }

  bool can_start(const Action& a) const {
    const std::int32_t s = a.stage.value;
    const std::int32_t m = a.microbatch.value;
    const auto lower = static_cast<std::size_t>(s);
    if (a.kind == ActionKind::kForward)
      return (s == 0 || has(false, s - 1, m)) &&
             (!has_above(s) || activations_[slot(s, m)] < facts_.boundaries[lower].activation);
    if (!is_gradient(a)) return true;
    return (!has_above(s) || has(true, s + 1, m)) &&
           (s == 0 || gradients_[slot(s - 1, m)] < facts_.boundaries[lower - 1].gradient);
  }
  void start(const Action& a) {
    const std::int32_t s = a.stage.value;
    const std::int32_t m = a.microbatch.value;
    if (a.kind == ActionKind::kForward && has_above(s)) ++activations_[slot(s, m)];
    if (is_gradient(a) && s > 0) ++gradients_[slot(s - 1, m)];
  }
  void end(const Action& a) {
    const std::int32_t s = a.stage.value;
    const std::int32_t m = a.microbatch.value;
    const bool is_forward = a.kind == ActionKind::kForward;
    if (is_forward || is_gradient(a)) done_.insert({!is_forward, s, m});
    if ((program_.forward_only ? is_forward : is_gradient(a)) && s > 0)
      --activations_[slot(s - 1, m)];
    if (is_gradient(a) && has_above(s)) --gradients_[slot(s, m)];
  }

  const Program& program_;
  const ProgramFacts& facts_;
  std::mt19937* random_;
  std::vector<std::size_t> next_;
  std::vector<bool> is_started_;
  std::vector<std::int32_t> activations_;
  std::vector<std::int32_t> gradients_;
  std::set<std::tuple<bool, std::int32_t, std::int32_t>> done_;
};

TEST_CASE("sweep: with the slots of the facts every timing drawn by chance completes") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  sweep([&](const Program& program) {
    const ProgramFacts facts = validate(program).value();
    CHECK(RandomTiming(program, facts, &random).completes());
    const Program ascending = with_ascending_weights(program);
    CHECK(RandomTiming(ascending, validate(ascending).value(), &random).completes());
  });
}

// Breadth first: all microbatches of a chunk before the next chunk; the backward descends.
Program breadth_first(std::int32_t ranks, std::int32_t microbatches, std::int32_t chunks) {
  Program program;
  program.schedule = "breadth_first";
  program.ranks = ranks;
  program.chunks = chunks;
  program.stages = ranks * chunks;
  program.microbatches = microbatches;
  for (std::int32_t r = 0; r < ranks; ++r) {
    std::vector<Action>& list = program.actions.emplace_back();
    for (std::int32_t c = 0; c < chunks; ++c)
      for (std::int32_t m = 0; m < microbatches; ++m)
        list.push_back({ActionKind::kForward, StageIndex{c * ranks + r}, MicrobatchIndex{m}});
    for (std::int32_t c = chunks - 1; c >= 0; --c)
      for (std::int32_t m = microbatches - 1; m >= 0; --m)
        list.push_back({ActionKind::kBackward, StageIndex{c * ranks + r}, MicrobatchIndex{m}});
  }
  return program;
}

TEST_CASE("sweep: breadth-first programs get the gradient slots that pile up and complete") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  bool needed_more_than_two = false;
  for (std::int32_t p = 1; p <= 5; ++p)
    for (std::int32_t m = 1; m <= 12; ++m)
      for (std::int32_t v = 1; v <= 3; ++v) {
        const Program program = breadth_first(p, m, v);
        const Result<ProgramFacts> facts = validate(program);
        REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
        for (const BoundarySlots& slots : facts->boundaries)
          needed_more_than_two = needed_more_than_two || slots.gradient > 2;
        CHECK(RandomTiming(program, *facts, &random).completes());
      }
  CHECK(needed_more_than_two);
}

TEST_CASE("sweep: programs accepted after random swaps complete at timings drawn by chance") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  int accepted = 0;
  for (int round = 0; round < 3000; ++round) {
    Program program = random_program(&random);
    std::vector<Action>& list = program.actions[random() % program.actions.size()];
    const std::size_t at = random() % list.size();
    std::swap(list[at], list[std::min(at + 1, list.size() - 1)]);
    const Result<ProgramFacts> facts = validate(program);
    if (!facts.is_ok()) continue;
    ++accepted;
    CHECK(RandomTiming(program, *facts, &random).completes());
  }
  CHECK(accepted > 300);
}

TEST_CASE("mutation: swapping a forward with its own backward is always refused") {
  INFO("seed ", kSeed);
  std::mt19937 random(kSeed);
  for (int round = 0; round < 500; ++round) {
    Program program = random_program(&random);
    if (program.forward_only) continue;
    std::vector<Action>& list = program.actions[random() % program.actions.size()];
    const std::size_t at = random() % list.size();
    const auto same = std::find_if(list.begin(), list.end(), [&](const Action& a) {
      return a.stage == list[at].stage && a.microbatch == list[at].microbatch && a != list[at];
    });
    REQUIRE(same != list.end());
    std::swap(*same, list[at]);
    CHECK_FALSE(validate(program).is_ok());
  }
}

TEST_CASE("sweep: a million actions are validated and simulated in seconds at most") {
  const Program program = program_of("1f1b", {64, 8000});
  const auto begin = std::chrono::steady_clock::now();
  const Result<ProgramFacts> facts = validate(program);
  const Simulation run = simulate(program, {});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  MESSAGE("validate and simulate: ", seconds.count(), " s");
  REQUIRE(facts.is_ok());
  CHECK(facts->action_count == 2 * 64 * 8000);
  CHECK(run.makespan == (8000 + 64 - 1) * 3);
  CHECK(seconds.count() < 20);  // far above the measured time: sanitizers and busy machines
}

}  // namespace
}  // namespace headrace::schedules
