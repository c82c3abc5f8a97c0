#include "schedules/detail/search_lists.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

namespace headrace::schedules::detail {
namespace {

struct Candidate {
  std::int32_t stage = -1;
  double arrival = kNoTime;

  [[nodiscard]] bool is_ready(double now) const { return stage >= 0 && arrival <= now; }
};

// What a rank does at a moment: run `part` of `stage`, or wait until `until`.
struct Choice {
  Part part = Part::kForward;
  std::int32_t stage = -1;  // -1 = wait
  double until = kNoTime;
};

struct StageState {
  std::int32_t next[3] = {0, 0, 0};  // [part] microbatch
  std::int32_t window = 0;

  [[nodiscard]] std::int32_t of(Part part) const { return next[static_cast<std::size_t>(part)]; }
};

struct RankState {
  std::int64_t held = 0;
  double free_at = 0;
  double decides_at = 0;
  bool last_was_input = false;
  std::size_t forward_turn = 0;  // in the shared order
  std::size_t input_turn = 0;
};

struct Decision {
  double time = 0;
  Rank rank;
  auto operator<=>(const Decision&) const = default;
};

class ListScheduler {
 public:
  ListScheduler(const SearchModel& model, const ListRules& rules)
      : model_(model),
        rules_(rules),
        stages_(static_cast<std::size_t>(model.stages())),
        ranks_(static_cast<std::size_t>(model.ranks())),
        arrivals_(model.node_count(), kNoTime) {
    set_windows();
    for (std::int32_t m = 0; m < model.microbatches(); ++m)
      arrivals_[index(model.node(Part::kForward, 0, m))] = 0;
    if (rules.group > 0) set_turns();
    for (std::int32_t r = 0; r < model.ranks(); ++r) decisions_.push({0, Rank{r}});
  }

  bool run(Orders* orders) {
    orders->assign(ranks_.size(), {});
    std::size_t done = 0;
    while (!decisions_.empty()) {
      const Decision decision = decisions_.top();
      decisions_.pop();
      RankState& rank = ranks_[decision.rank.index()];
      if (decision.time != rank.decides_at) continue;  // overtaken by an earlier one
      const Choice choice = choose(decision.rank, decision.time);
      if (choice.stage >= 0) {
        start(decision.rank, choice, decision.time, &(*orders)[decision.rank.index()]);
        ++done;
      } else {
        schedule(decision.rank, choice.until);
      }
    }
    return done == model_.node_count();
  }

 private:
  [[nodiscard]] static std::size_t index(Node node) { return static_cast<std::size_t>(node); }
  [[nodiscard]] StageState& stage(std::int32_t s) { return stages_[static_cast<std::size_t>(s)]; }
  [[nodiscard]] const StageState& stage(std::int32_t s) const {
    return stages_[static_cast<std::size_t>(s)];
  }

  void set_windows() {
    const double period = model_.work_max() / model_.microbatches();
    double round = 0;
    for (std::int32_t s = model_.stages(); s-- > 0;) {
      round += model_.cost(s).forward + model_.cost(s).backward_input;
      const double window = period > 0 ? std::ceil(rules_.window * round / period) : kNoTime;
      stage(s).window = window < model_.microbatches()
                            ? std::max(1, static_cast<std::int32_t>(window) + rules_.window_base)
                            : model_.microbatches();
      if (s > 0 && model_.rank_of(s - 1) != model_.rank_of(s)) round += 2 * model_.hop();
    }
  }

  // The order of (chunk, microbatch) that every rank keeps: groups, chunks inside a group.
  void set_turns() {
    const auto chunks = static_cast<std::int32_t>(model_.stages_on(Rank{0}).size());
    for (std::int32_t first = 0; first < model_.microbatches(); first += rules_.group)
      for (std::int32_t c = 0; c < chunks; ++c)
        for (std::int32_t m = first; m < std::min(first + rules_.group, model_.microbatches()); ++m)
          turns_.push_back(c);
  }
  [[nodiscard]] bool has_turn(Rank rank, Part part, std::int32_t s) const {
    if (turns_.empty()) return true;
    const RankState& state = ranks_[rank.index()];
    const std::vector<std::int32_t>& own = model_.stages_on(rank);
    const std::size_t turn = part == Part::kForward ? state.forward_turn : state.input_turn;
    if (turn >= turns_.size()) return false;
    const auto chunk = static_cast<std::size_t>(turns_[turn]);
    return s == (part == Part::kForward ? own[chunk] : own[own.size() - 1 - chunk]);
  }

  void schedule(Rank rank, double time) {
    ranks_[rank.index()].decides_at = time;
    if (time < kNoTime) decisions_.push({time, rank});
  }

  // Whether the rank stays able to finish its microbatches one after the other once it holds the
  // next forward of `s`: for each microbatch k with forwards to come, what k and the later ones
  // hold plus what k still takes must fit. Else two chunks could fill a rank and wait for a third.
  [[nodiscard]] bool may_hold(Rank rank, std::int32_t s) const {
    const std::vector<std::int32_t>& own = model_.stages_on(rank);
    const std::int64_t whole = model_.memory_of(Part::kForward);
    const std::int64_t rest = -model_.memory_of(Part::kWeight);
    if (ranks_[rank.index()].held + whole > model_.memory_limit()) return false;
    if (own.size() == 1) return true;
    const auto forwards = [&](std::int32_t o) { return stage(o).of(Part::kForward) + (o == s); };
    for (const std::int32_t pivot : own) {
      const std::int32_t k = forwards(pivot);
      if (k >= model_.microbatches()) continue;
      std::int64_t needed = 0;
      for (const std::int32_t o : own) {
        const std::int32_t input = std::max(k, stage(o).of(Part::kInput));
        const std::int32_t weight = std::max(k, stage(o).of(Part::kWeight));
        needed += whole * std::max(0, forwards(o) - input) + rest * (input - weight);
        if (forwards(o) <= k) needed += whole;
      }
      if (needed > model_.memory_limit()) return false;
    }
    return true;
  }

  // The stage whose next action of this part can run first; among those that can run now, the one
  // the rules prefer.
  [[nodiscard]] Candidate find(Rank rank, Part part, double now, bool ignores_limit) const {
    Candidate best;
    for (const std::int32_t s : model_.stages_on(rank)) {
      const StageState& state = stage(s);
      const std::int32_t m = state.of(part);
      if (m >= model_.microbatches() || !has_turn(rank, part, s)) continue;
      if (part == Part::kForward &&
          (m - state.of(Part::kInput) >= state.window || (!ignores_limit && !may_hold(rank, s))))
        continue;
      if (part == Part::kInput && m >= state.of(Part::kForward)) continue;
      const double arrival = std::max(now, arrivals_[index(model_.node(part, s, m))]);
      const bool wins_tie = arrival == best.arrival && rules_.deep_first;
      if (best.stage < 0 || arrival < best.arrival || wins_tie) best = {s, arrival};
    }
    return best;
  }

  // The stage with the weight gradient that has waited longest, and how many wait on the rank.
  [[nodiscard]] std::int32_t find_weight(Rank rank, std::int32_t* waiting) const {
    std::int32_t best = -1;
    for (const std::int32_t s : model_.stages_on(rank)) {
      const std::int32_t pending = stage(s).of(Part::kInput) - stage(s).of(Part::kWeight);
      *waiting += pending;
      if (pending == 0) continue;
      if (best < 0 || stage(s).of(Part::kWeight) <= stage(best).of(Part::kWeight)) best = s;
    }
    return best;
  }

  [[nodiscard]] Choice choose(Rank rank, double now) const {
    const Candidate input = find(rank, Part::kInput, now, false);
    const Candidate forward = find(rank, Part::kForward, now, false);
    const bool forward_ready = forward.is_ready(now);
    const bool gives_way =
        rules_.alternates && ranks_[rank.index()].last_was_input && forward_ready;
    if (input.is_ready(now) && !gives_way) return {Part::kInput, input.stage};

    std::int32_t waiting = 0;
    const std::int32_t weight = find_weight(rank, &waiting);
    if (weight >= 0 && waiting > rules_.weight_lag * rank.value) return {Part::kWeight, weight};
    const double weight_end =
        weight >= 0 ? now + (1 - rules_.weight_slack) * model_.cost(weight).backward_weight
                    : kNoTime;
    if (forward_ready) {
      const double end = now + (1 - rules_.forward_slack) * model_.cost(forward.stage).forward;
      if (gives_way || end <= input.arrival) return {Part::kForward, forward.stage};
      if (weight_end <= input.arrival) return {Part::kWeight, weight};
      return {Part::kForward, -1, input.arrival};
    }
    const double next = std::min(input.arrival, forward.arrival);
    if (weight >= 0) {
      const bool is_full = find(rank, Part::kForward, now, true).is_ready(now);
      if (is_full || weight_end <= next) return {Part::kWeight, weight};
    }
    return {Part::kForward, -1, next};
  }

  void start(Rank rank, const Choice& choice, double now, std::vector<Node>* list) {
    RankState& state = ranks_[rank.index()];
    std::int32_t& m = stage(choice.stage).next[static_cast<std::size_t>(choice.part)];
    const Node node = model_.node(choice.part, choice.stage, m++);
    list->push_back(node);
    const NodeFacts& facts = model_.facts(node);
    const double end = now + facts.duration;
    state.free_at = end;
    state.held += model_.memory_of(choice.part);
    if (choice.part == Part::kForward) ++state.forward_turn;
    if (choice.part == Part::kInput) ++state.input_turn;
    if (choice.part != Part::kWeight) state.last_was_input = choice.part == Part::kInput;
    schedule(rank, end);
    if (choice.part == Part::kForward && choice.stage + 1 == model_.stages())
      arrivals_[index(node) + 1] = end;  // the last stage's input gradient follows its forward
    if (facts.consumer_rank.value < 0) return;
    const Node below = 3 * model_.microbatches();  // nodes of a stage
    const Node consumer = node + (choice.part == Part::kForward ? below : -below);
    const double arrival = end + model_.facts(consumer).latency;
    arrivals_[index(consumer)] = arrival;
    const RankState& waiting = ranks_[facts.consumer_rank.index()];
    const double time = std::max(arrival, waiting.free_at);
    if (time < waiting.decides_at) schedule(facts.consumer_rank, time);
  }

  const SearchModel& model_;
  const ListRules& rules_;
  std::vector<StageState> stages_;
  std::vector<RankState> ranks_;
  std::vector<double> arrivals_;  // [node] when its input is there
  std::vector<std::int32_t> turns_;
  std::priority_queue<Decision, std::vector<Decision>, std::greater<>> decisions_;
};

}  // namespace

bool make_list(const SearchModel& model, const ListRules& rules, Orders* orders) {
  return ListScheduler(model, rules).run(orders);
}

}  // namespace headrace::schedules::detail
