// Freedom from deadlock in the runtime's model, by one run in rounds: in a round every rank that
// can runs one compute action, and what it makes is there in the next round.
//
// [Note: the run is conclusive] Every wait is for something that only ever becomes true (an action
// done, a slot given back), and every slot has one taker and one giver, each in its fixed order. So
// what one timing reaches, each timing reaches: one run to the end proves that none can deadlock.
// Gradient slots are unlimited in the run and sized by it afterwards, so the run fits them too.
// Activation slots begin at the peak of program order plus one. Where all stand still and one of
// them only for a slot, that boundary gets one more: a split backward over several chunks can need
// that (interleaved_zb, P=4, M=7, V=2). What still stands waits for actions, and no slot would
// help.
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace headrace::schedules::detail {
namespace {

enum class WaitKind { kNone, kAction, kSlot };

struct Wait {
  WaitKind kind = WaitKind::kNone;
  Action awaited;       // kAction
  StageIndex boundary;  // kSlot: the lower stage
};

struct WaitEdge {
  Rank on;           // the rank that must move
  std::string text;  // "rank 0 at 0B0 waits for 1B0"
};

class RoundsRun {
 public:
  RoundsRun(const Program& program, const CellIndex& index, ProgramFacts* facts)
      : program_(program),
        index_(index),
        facts_(*facts),
        next_(static_cast<std::size_t>(program.ranks), 0),
        is_queued_(static_cast<std::size_t>(program.ranks), true),
        activations_taken_(2 * static_cast<std::size_t>(program.stages), 0),
        gradients_taken_(2 * static_cast<std::size_t>(program.stages), 0),
        gradients_peak_(2 * static_cast<std::size_t>(program.stages), 0) {}

  void run(Findings* findings) {
    for (std::int32_t r = 0; r < program_.ranks; ++r) queue_.push_back(Rank{r});
    do {
      while (!queue_.empty()) play_round();
    } while (grow_a_boundary());
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      if (is_blocked(Rank{r})) return refuse(findings);
  }

  // The most gradients of a boundary held at once; of both directions where there are two.
  [[nodiscard]] std::int32_t gradient_peak(StageIndex lower) const {
    return std::max(gradients_peak_[2 * lower.index()], gradients_peak_[2 * lower.index() + 1]);
  }

 private:
  [[nodiscard]] const std::vector<Action>& list(Rank rank) const {
    return program_.actions[rank.index()];
  }
  [[nodiscard]] bool is_blocked(Rank rank) const {
    return static_cast<std::size_t>(next_[rank.index()]) < list(rank).size();
  }
  [[nodiscard]] const Action& current(Rank rank) const {
    return list(rank)[static_cast<std::size_t>(next_[rank.index()])];
  }

  // One more slot for the first rank that waits for nothing else; false where none does.
  bool grow_a_boundary() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) {
      if (!is_blocked(Rank{r})) continue;
      const Wait wait = wait_at(Rank{r});
      if (wait.kind != WaitKind::kSlot) continue;
      ++facts_.boundaries[wait.boundary.index()].activation;
      wake(Rank{r});
      return true;
    }
    return false;
  }

  void play_round() {
    std::vector<Rank> asked;
    asked.swap(queue_);
    std::vector<Rank> running;
    for (Rank rank : asked) is_queued_[rank.index()] = false;
    for (Rank rank : asked) {
      pass_transfers(rank);
      if (is_blocked(rank) && is_compute(current(rank).kind) &&
          wait_at(rank).kind == WaitKind::kNone)
        running.push_back(rank);
    }
    for (Rank rank : running) {
      take_slots(current(rank));
      if (current(rank).overlaps_next) take_slots(paired(rank));
    }
    for (Rank rank : running) {
      const bool is_pair = current(rank).overlaps_next;
      end_action(rank);
      if (is_pair) end_action(rank);
      wake(rank);
      pass_transfers(rank);
    }
  }

  void end_action(Rank rank) {
    const Action& action = current(rank);
    ++next_[rank.index()];
    give_slots(action);
    wake_neighbours(action);
  }

  // Runs the rank's actions up to the next compute action or the first that waits.
  void pass_transfers(Rank rank) {
    while (is_blocked(rank) && !is_compute(current(rank).kind) &&
           wait_at(rank).kind == WaitKind::kNone) {
      const Action& action = current(rank);
      ++next_[rank.index()];
      if (is_transfer(action.kind)) wake_neighbours(action);
      if (action.kind == ActionKind::kTiedSend) {
        is_tied_sent_[action.stage.value == 0 ? 0 : 1] = true;
        wake(program_.rank_of(other_end(action.stage), MicrobatchIndex{0}));
      }
      if (action.kind == ActionKind::kNorm && ++norms_done_ == program_.ranks)
        for (std::int32_t r = 0; r < program_.ranks; ++r) wake(Rank{r});
    }
  }

  void take_slots(const Action& action) {
    const StageIndex below{action.stage.value - 1};
    if (action.kind == ActionKind::kForward && has_above(action.stage))
      ++activations_taken_[slot_at(action.stage, action.microbatch)];
    if (!makes_gradient(action) || below.value < 0) return;
    const std::size_t at = slot_at(below, action.microbatch);
    gradients_peak_[at] = std::max(gradients_peak_[at], ++gradients_taken_[at]);
  }

  void give_slots(const Action& action) {
    const StageIndex below{action.stage.value - 1};
    if (gives_activation(action) && below.value >= 0)
      --activations_taken_[slot_at(below, action.microbatch)];
    if (makes_gradient(action) && has_above(action.stage))
      --gradients_taken_[slot_at(action.stage, action.microbatch)];
  }

  void wake_neighbours(const Action& action) {
    const StageIndex below{action.stage.value - 1};
    if (has_above(action.stage))
      wake(program_.rank_of(StageIndex{action.stage.value + 1}, action.microbatch));
    if (below.value >= 0) wake(program_.rank_of(below, action.microbatch));
  }

  void wake(Rank rank) {
    if (is_queued_[rank.index()]) return;
    is_queued_[rank.index()] = true;
    queue_.push_back(rank);
  }

  // check_pairs proved that the second half of a pair is there.
  [[nodiscard]] const Action& paired(Rank rank) const {
    return list(rank)[static_cast<std::size_t>(next_[rank.index()]) + 1];
  }

  // What the rank waits for at its next action or pair.
  [[nodiscard]] Wait wait_at(Rank rank) const {
    const Wait wait = wait_of(current(rank));
    if (!current(rank).overlaps_next || wait.kind != WaitKind::kNone) return wait;
    return wait_of(paired(rank));
  }

  [[nodiscard]] Wait wait_of(const Action& action) const {
    const StageIndex below{action.stage.value - 1};
    const StageIndex above{action.stage.value + 1};
    const MicrobatchIndex m = action.microbatch;
    switch (action.kind) {
      case ActionKind::kForward:
        if (below.value >= 0 && !is_received(below, m) && !is_done(ActionKind::kForward, below, m))
          return wait_for(ActionKind::kForward, below, m);
        if (has_above(action.stage) && activations_taken_[slot_at(action.stage, m)] >=
                                           facts_.boundaries[action.stage.index()].activation)
          return {WaitKind::kSlot, {}, action.stage};
        return {};
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        if (has_above(action.stage) && !is_received(action.stage, m) &&
            !is_done(gradient_kind(above, m), above, m))
          return wait_for(gradient_kind(above, m), above, m);
        return {};
      case ActionKind::kRecvForward:
        return is_done(ActionKind::kSendForward, below, m)
                   ? Wait{}
                   : wait_for(ActionKind::kSendForward, below, m);
      case ActionKind::kRecvBackward:
        return is_done(ActionKind::kSendBackward, above, m)
                   ? Wait{}
                   : wait_for(ActionKind::kSendBackward, above, m);
      case ActionKind::kTiedRecv:
        return is_tied_sent_[action.stage.value == 0 ? 1 : 0]
                   ? Wait{}
                   : wait_for(ActionKind::kTiedSend, other_end(action.stage), MicrobatchIndex{0});
      case ActionKind::kCommit:
        return norms_done_ == program_.ranks
                   ? Wait{}
                   : wait_for(ActionKind::kNorm, StageIndex{0}, MicrobatchIndex{0});
      default:
        return {};
    }
  }

  static Wait wait_for(ActionKind kind, StageIndex stage, MicrobatchIndex m) {
    return {WaitKind::kAction, {kind, stage, m}, {}};
  }
  [[nodiscard]] bool has_above(StageIndex stage) const { return stage.value + 1 < program_.stages; }
  [[nodiscard]] StageIndex other_end(StageIndex stage) const {
    return StageIndex{stage.value == 0 ? program_.stages - 1 : 0};
  }
  // In a lowered program the receive did the waiting; check_transfers proved that it stands before.
  [[nodiscard]] bool is_received(StageIndex lower, MicrobatchIndex m) const {
    return index_.has_transfers() && crosses_ranks(program_, lower, m);
  }
  [[nodiscard]] ActionKind gradient_kind(StageIndex stage, MicrobatchIndex m) const {
    return index_.has(ActionKind::kBackward, stage, m) ? ActionKind::kBackward
                                                       : ActionKind::kBackwardInput;
  }
  [[nodiscard]] bool is_done(ActionKind kind, StageIndex stage, MicrobatchIndex m) const {
    return index_.column(kind, stage, m) < next_[program_.rank_of(stage, m).index()];
  }

  // The two directions of a bidirectional placement are two boundaries with slots of their own.
  [[nodiscard]] std::size_t slot_at(StageIndex lower, MicrobatchIndex m) const {
    const bool is_second =
        program_.placement == Placement::kBidirectional && m.value >= program_.microbatches / 2;
    return 2 * lower.index() + (is_second ? 1 : 0);
  }
  [[nodiscard]] static bool makes_gradient(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
  }
  [[nodiscard]] bool gives_activation(const Action& action) const {
    return program_.forward_only ? action.kind == ActionKind::kForward : makes_gradient(action);
  }

  void refuse(Findings* findings) const;
  [[nodiscard]] WaitEdge edge_of(Rank rank) const;
  [[nodiscard]] Rank first_without_norm() const;
  [[nodiscard]] std::vector<Rank> smallest_cycle() const;

  const Program& program_;
  const CellIndex& index_;
  ProgramFacts& facts_;
  std::vector<std::int32_t> next_;  // [rank] column of the next action
  std::vector<Rank> queue_;         // who may have something to do in the next round
  std::vector<bool> is_queued_;
  std::vector<std::int32_t> activations_taken_;  // [slot_at]
  std::vector<std::int32_t> gradients_taken_;    // [slot_at]
  std::vector<std::int32_t> gradients_peak_;     // [slot_at]
  bool is_tied_sent_[2] = {false, false};        // by stage 0, by the last stage
  std::int32_t norms_done_ = 0;
};

Rank RoundsRun::first_without_norm() const {
  for (std::int32_t r = 0; r < program_.ranks; ++r)
    for (std::size_t i = static_cast<std::size_t>(next_[Rank{r}.index()]); i < list(Rank{r}).size();
         ++i)
      if (list(Rank{r})[i].kind == ActionKind::kNorm) return Rank{r};
  HEADRACE_CHECK(false, "a rank waits for a NORM that is done");
  return Rank{0};
}

WaitEdge RoundsRun::edge_of(Rank rank) const {
  const Wait wait = wait_at(rank);
  std::string who = "rank " + std::to_string(rank.value) + " at " + to_string(current(rank));
  if (current(rank).overlaps_next) who += " with " + to_string(paired(rank));
  who += " waits for ";
  const bool is_norm = wait.awaited.kind == ActionKind::kNorm;
  const Rank on = is_norm ? first_without_norm()
                          : program_.rank_of(wait.awaited.stage, wait.awaited.microbatch);
  std::string what = to_string(wait.awaited);
  if (is_norm) what += " of rank " + std::to_string(on.value);
  if (on == rank) what += ", later in the same list";
  return {on, who + what};
}

// Each blocked rank waits for exactly one rank, which is blocked too: every walk ends in a cycle.
std::vector<Rank> RoundsRun::smallest_cycle() const {
  const std::size_t ranks = next_.size();
  std::vector<Rank> on(ranks);
  for (std::int32_t r = 0; r < program_.ranks; ++r)
    if (is_blocked(Rank{r})) on[Rank{r}.index()] = edge_of(Rank{r}).on;
  std::vector<std::int32_t> walk_of(ranks, -1);  // the walk that visited the rank first
  std::vector<Rank> best;
  for (std::int32_t r = 0; r < program_.ranks; ++r) {
    Rank at{r};
    if (!is_blocked(at)) continue;
    while (walk_of[at.index()] == -1) {
      walk_of[at.index()] = r;
      at = on[at.index()];
    }
    if (walk_of[at.index()] != r) continue;  // ran into an earlier walk
    std::vector<Rank> cycle{at};
    for (Rank next = on[at.index()]; next != at; next = on[next.index()]) cycle.push_back(next);
    if (best.empty() || cycle.size() < best.size()) best = cycle;
  }
  std::rotate(best.begin(), std::min_element(best.begin(), best.end()), best.end());
  return best;
}

void RoundsRun::refuse(Findings* findings) const {
  std::string before = "deadlock, whatever the timing: ";
  for (Rank rank : smallest_cycle()) {
    findings->add(before + edge_of(rank).text, {{rank, next_[rank.index()]}});
    before.clear();
  }
}

}  // namespace

void check_progress(const Program& program, const CellIndex& index, ProgramFacts* facts,
                    Findings* findings) {
  RoundsRun run(program, index, facts);
  run.run(findings);
  if (!findings->empty()) return;
  for (std::int32_t s = 0; s + 1 < program.stages; ++s)
    facts->boundaries[StageIndex{s}.index()].gradient =
        std::max(2, run.gradient_peak(StageIndex{s}) + 1);
}

}  // namespace headrace::schedules::detail
