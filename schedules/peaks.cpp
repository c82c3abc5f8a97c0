// Peaks and activation slots, counted in program order on each rank alone.
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace headrace::schedules::detail {
namespace {

// What is held at this point of a rank's list, per stage. Every count is back at zero at the end of
// a valid list, so one set serves all ranks in turn.
struct Held {
  std::int32_t boundary = 0;
  std::int32_t stash = 0;
  std::int32_t activation = 0;
  std::int32_t weight_inputs = 0;
};

class PeakWalk {
 public:
  explicit PeakWalk(const Program& program)
      : program_(program), held_(static_cast<std::size_t>(program.stages)) {
    facts_.stages.resize(static_cast<std::size_t>(program.stages));
    facts_.peak_activations.assign(static_cast<std::size_t>(program.ranks), 0);
  }

  ProgramFacts run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) walk(Rank{r});
    for (std::int32_t s = 0; s + 1 < program_.stages; ++s) {
      BoundarySlots slots;
      slots.activation = std::max(2, facts_.stages[StageIndex{s + 1}.index()].boundary + 1);
      facts_.boundaries.push_back(slots);
    }
    return std::move(facts_);
  }

 private:
  void walk(Rank rank) {
    rank_held_ = 0;
    for (const Action& action : program_.actions[rank.index()]) {
      ++facts_.action_count;
      if (action.kind == ActionKind::kForward) forward(action, rank);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput)
        gradient(action);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight) {
        --held_[action.stage.index()].activation;
        --rank_held_;
      }
      if (action.kind == ActionKind::kBackwardWeight) --held_[action.stage.index()].weight_inputs;
    }
  }

  void forward(const Action& action, Rank rank) {
    const StageIndex stage = action.stage;
    const StageIndex below{stage.value - 1};
    Held& held = held_[stage.index()];
    StagePeaks& peaks = facts_.stages[stage.index()];
    const bool is_input_local =
        stage.value > 0 && !crosses_ranks(program_, below, action.microbatch);
    if (!is_input_local) raise(&held.boundary, &peaks.boundary);
    if (is_local_above(action)) {
      const StageIndex above{stage.value + 1};
      raise(&held_[above.index()].boundary, &facts_.stages[above.index()].boundary);
    }
    raise(&held.stash, &peaks.stash);
    raise(&held.activation, &peaks.activation);
    raise(&rank_held_, &facts_.peak_activations[rank.index()]);
    if (!program_.forward_only) return;
    --held.boundary;
    --held.stash;
    --held.activation;
    --rank_held_;
  }

  void gradient(const Action& action) {
    const StageIndex stage = action.stage;
    Held& held = held_[stage.index()];
    StagePeaks& peaks = facts_.stages[stage.index()];
    raise(&held.weight_inputs, &peaks.weight_inputs);
    if (action.kind == ActionKind::kBackward) --held.weight_inputs;
    --held.boundary;
    --held.stash;
  }

  [[nodiscard]] bool is_local_above(const Action& action) const {
    return action.stage.value + 1 < program_.stages &&
           !crosses_ranks(program_, action.stage, action.microbatch);
  }

  static void raise(std::int32_t* held, std::int32_t* peak) {
    ++*held;
    *peak = std::max(*peak, *held);
  }

  const Program& program_;
  ProgramFacts facts_;
  std::vector<Held> held_;  // [stage]
  std::int32_t rank_held_ = 0;
};

// Bytes of one rank, in program order.
class ByteWalk {
 public:
  ByteWalk(const Program& program, std::span<const StageBytes> stages, bool has_transfers)
      : program_(program), stages_(stages), has_transfers_(has_transfers) {}

  LifetimeBytes run(Rank rank) {
    for (const Action& action : program_.actions[rank.index()]) visit(action);
    return peak_;
  }

 private:
  void visit(const Action& action) {
    const std::int32_t s = action.stage.value;
    const StageBytes& own = stages_[action.stage.index()];
    switch (action.kind) {
      case ActionKind::kRecvForward:
        held_.boundary += own.boundary;
        break;
      case ActionKind::kForward:
        if (takes_input_here(action)) held_.boundary += own.boundary;
        if (s + 1 < program_.stages && !crosses_ranks(program_, action.stage, action.microbatch))
          held_.boundary += stages_[StageIndex{s + 1}.index()].boundary;
        held_.stash += own.stash;
        break;
      case ActionKind::kBackward:
      case ActionKind::kBackwardInput:
        held_.weight_inputs += own.weight_inputs;
        break;
      default:
        break;
    }
    raise();
    release(action, own);
  }

  // The first stage reads its microbatch; without transfers what crosses arrives at its F.
  [[nodiscard]] bool takes_input_here(const Action& action) const {
    const StageIndex below{action.stage.value - 1};
    if (below.value < 0) return true;
    return crosses_ranks(program_, below, action.microbatch) && !has_transfers_;
  }

  void release(const Action& action, const StageBytes& own) {
    const bool is_gradient =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
    if (is_gradient || (program_.forward_only && action.kind == ActionKind::kForward)) {
      held_.boundary -= own.boundary;
      held_.stash -= own.stash;
    }
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
      held_.weight_inputs -= own.weight_inputs;
  }

  void raise() {
    peak_.boundary = std::max(peak_.boundary, held_.boundary);
    peak_.stash = std::max(peak_.stash, held_.stash);
    peak_.weight_inputs = std::max(peak_.weight_inputs, held_.weight_inputs);
    peak_.total = std::max(peak_.total, held_.boundary + held_.stash + held_.weight_inputs);
  }

  const Program& program_;
  std::span<const StageBytes> stages_;
  bool has_transfers_;
  LifetimeBytes held_;
  LifetimeBytes peak_;
};

}  // namespace

ProgramFacts measure_peaks(const Program& program) { return PeakWalk(program).run(); }

}  // namespace headrace::schedules::detail

namespace headrace::schedules {

std::vector<LifetimeBytes> peak_bytes(const Program& program, std::span<const StageBytes> stages) {
  HEADRACE_CHECK(stages.size() == static_cast<std::size_t>(program.stages),
                 "one entry per stage is needed", stages.size());
  bool has_transfers = false;
  for (const std::vector<Action>& list : program.actions)
    has_transfers = has_transfers || std::any_of(list.begin(), list.end(), [](const Action& a) {
                      return is_transfer(a.kind);
                    });
  std::vector<LifetimeBytes> peaks;
  for (std::int32_t r = 0; r < program.ranks; ++r)
    peaks.push_back(detail::ByteWalk(program, stages, has_transfers).run(Rank{r}));
  return peaks;
}

}  // namespace headrace::schedules
