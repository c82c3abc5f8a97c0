// Freedom from deadlock in the runtime's model, by running it without time.
//
// [Note: the run is conclusive] Every wait is for something that only ever becomes true (an action
// done, a slot given back) and every slot has one taker and one giver, each in its fixed order. So
// what one order of execution reaches, each order reaches: running once to the end proves that no
// timing can deadlock.
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace headrace::schedules::detail {
namespace {

enum class WaitKind { kNone, kAction, kActivationSlot, kGradientSlot };

struct Wait {
  WaitKind kind = WaitKind::kNone;
  Action awaited;        // kAction
  StageIndex boundary;   // slots: the lower stage
  MicrobatchIndex user;  // slots: the microbatch that needs one
};

struct WaitEdge {
  Rank on;           // the rank that must move
  std::string text;  // "rank 0 at 0B0 waits for 1B0"
};

class UntimedRun {
 public:
  UntimedRun(const Program& program, const CellIndex& index, const ProgramFacts& facts)
      : program_(program),
        index_(index),
        facts_(facts),
        next_(static_cast<std::size_t>(program.ranks), 0),
        is_queued_(static_cast<std::size_t>(program.ranks), true),
        activations_taken_(2 * static_cast<std::size_t>(program.stages), 0),
        gradients_taken_(2 * static_cast<std::size_t>(program.stages), 0) {}

  Status run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) queue_.push_back(Rank{r});
    while (!queue_.empty()) {
      const Rank rank = queue_.front();
      queue_.pop_front();
      is_queued_[rank.index()] = false;
      advance(rank);
    }
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      if (is_blocked(Rank{r})) return refuse();
    return Status::ok();
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

  void advance(Rank rank) {
    while (is_blocked(rank)) {
      const Action& action = current(rank);
      if (wait_of(action).kind != WaitKind::kNone) return;
      ++next_[rank.index()];
      execute(action);
    }
  }

  void execute(const Action& action) {
    const StageIndex below{action.stage.value - 1};
    switch (action.kind) {
      case ActionKind::kForward:
        if (has_above(action.stage)) ++taken(activations_taken_, action.stage, action.microbatch);
        if (program_.forward_only && below.value >= 0)
          --taken(activations_taken_, below, action.microbatch);
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        if (has_above(action.stage)) --taken(gradients_taken_, action.stage, action.microbatch);
        if (below.value >= 0) {
          ++taken(gradients_taken_, below, action.microbatch);
          --taken(activations_taken_, below, action.microbatch);
        }
        break;
      case ActionKind::kTiedSend:
        is_tied_sent_[action.stage.value == 0 ? 0 : 1] = true;
        break;
      case ActionKind::kNorm:
        if (++norms_done_ == program_.ranks)
          for (std::int32_t r = 0; r < program_.ranks; ++r) wake(Rank{r});
        return;
      default:
        break;
    }
    if (action.kind == ActionKind::kTiedSend)
      return wake(program_.rank_of(other_end(action.stage), MicrobatchIndex{0}));
    if (has_above(action.stage))
      wake(program_.rank_of(StageIndex{action.stage.value + 1}, action.microbatch));
    if (below.value >= 0) wake(program_.rank_of(below, action.microbatch));
  }

  void wake(Rank rank) {
    if (is_queued_[rank.index()]) return;
    is_queued_[rank.index()] = true;
    queue_.push_back(rank);
  }

  [[nodiscard]] Wait wait_of(const Action& action) const {
    const StageIndex below{action.stage.value - 1};
    const StageIndex above{action.stage.value + 1};
    const MicrobatchIndex m = action.microbatch;
    switch (action.kind) {
      case ActionKind::kForward:
        if (below.value >= 0 && !is_received(below, m) && !is_done(ActionKind::kForward, below, m))
          return wait_for(ActionKind::kForward, below, m);
        if (has_above(action.stage) && taken(activations_taken_, action.stage, m) >=
                                           facts_.boundaries[action.stage.index()].activation)
          return {WaitKind::kActivationSlot, {}, action.stage, m};
        return {};
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        if (has_above(action.stage) && !is_received(action.stage, m) &&
            !is_done(gradient_kind(above, m), above, m))
          return wait_for(gradient_kind(above, m), above, m);
        if (below.value >= 0 &&
            taken(gradients_taken_, below, m) >= facts_.boundaries[below.index()].gradient)
          return {WaitKind::kGradientSlot, {}, below, m};
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
    return {WaitKind::kAction, {kind, stage, m}, {}, {}};
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
  std::int32_t& taken(std::vector<std::int32_t>& slots, StageIndex lower, MicrobatchIndex m) {
    return slots[slot_at(lower, m)];
  }
  [[nodiscard]] std::int32_t taken(const std::vector<std::int32_t>& slots, StageIndex lower,
                                   MicrobatchIndex m) const {
    return slots[slot_at(lower, m)];
  }

  [[nodiscard]] Status refuse() const;
  [[nodiscard]] WaitEdge edge_of(Rank rank) const;
  [[nodiscard]] Rank first_without_norm() const;
  [[nodiscard]] const Action& next_giver(const Wait& wait) const;
  [[nodiscard]] std::vector<Rank> smallest_cycle() const;

  const Program& program_;
  const CellIndex& index_;
  const ProgramFacts& facts_;
  std::vector<std::int32_t> next_;  // [rank] column of the next action
  std::deque<Rank> queue_;
  std::vector<bool> is_queued_;
  std::vector<std::int32_t> activations_taken_;  // [slot_at]
  std::vector<std::int32_t> gradients_taken_;    // [slot_at]
  bool is_tied_sent_[2] = {false, false};        // by stage 0, by the last stage
  std::int32_t norms_done_ = 0;
};

Rank UntimedRun::first_without_norm() const {
  for (std::int32_t r = 0; r < program_.ranks; ++r)
    for (std::size_t i = static_cast<std::size_t>(next_[Rank{r}.index()]); i < list(Rank{r}).size();
         ++i)
      if (list(Rank{r})[i].kind == ActionKind::kNorm) return Rank{r};
  HEADRACE_CHECK(false, "a rank waits for a NORM that is done");
  return Rank{0};
}

// The first action to come that gives a slot of the awaited boundary back.
const Action& UntimedRun::next_giver(const Wait& wait) const {
  const bool is_gradient = wait.kind == WaitKind::kGradientSlot;
  const StageIndex stage{wait.boundary.value + (is_gradient ? 0 : 1)};
  const Rank rank = program_.rank_of(stage, wait.user);
  for (std::size_t i = static_cast<std::size_t>(next_[rank.index()]); i < list(rank).size(); ++i) {
    const Action& action = list(rank)[i];
    const bool gives = program_.forward_only ? action.kind == ActionKind::kForward
                                             : action.kind == ActionKind::kBackward ||
                                                   action.kind == ActionKind::kBackwardInput;
    if (gives && action.stage == stage &&
        slot_at(wait.boundary, action.microbatch) == slot_at(wait.boundary, wait.user))
      return action;
  }
  HEADRACE_CHECK(false, "no action gives the slot back", wait.boundary.value);
  return list(rank).front();
}

WaitEdge UntimedRun::edge_of(Rank rank) const {
  const Wait wait = wait_of(current(rank));
  const std::string who =
      "rank " + std::to_string(rank.value) + " at " + to_string(current(rank)) + " waits for ";
  if (wait.kind == WaitKind::kAction) {
    const bool is_norm = wait.awaited.kind == ActionKind::kNorm;
    const Rank on = is_norm ? first_without_norm()
                            : program_.rank_of(wait.awaited.stage, wait.awaited.microbatch);
    std::string what = to_string(wait.awaited);
    if (is_norm) what += " of rank " + std::to_string(on.value);
    if (on == rank) what += ", later in the same list";
    return {on, who + what};
  }
  const Action& giver = next_giver(wait);
  const BoundarySlots& slots = facts_.boundaries[wait.boundary.index()];
  const bool is_gradient = wait.kind == WaitKind::kGradientSlot;
  return {program_.rank_of(giver.stage, giver.microbatch),
          who + "a free " + (is_gradient ? "gradient" : "activation") + " slot between stages " +
              std::to_string(wait.boundary.value) + " and " +
              std::to_string(wait.boundary.value + 1) + " (" +
              std::to_string(is_gradient ? slots.gradient : slots.activation) + " slots), which " +
              to_string(giver) + " gives back"};
}

// Each blocked rank waits for exactly one rank, which is blocked too: every walk ends in a cycle.
std::vector<Rank> UntimedRun::smallest_cycle() const {
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

Status UntimedRun::refuse() const {
  std::string text = "deadlock, whatever the timing: ";
  std::vector<GridCell> cells;
  for (Rank rank : smallest_cycle()) {
    text += (cells.empty() ? "" : "; ") + edge_of(rank).text;
    cells.push_back({rank, next_[rank.index()]});
  }
  Findings findings;
  findings.add(text, cells);
  return findings.status(program_);
}

}  // namespace

Status check_progress(const Program& program, const CellIndex& index, const ProgramFacts& facts) {
  return UntimedRun(program, index, facts).run();
}

}  // namespace headrace::schedules::detail
