// Peaks and activation slots, counted in program order on each rank alone.
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
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

}  // namespace

ProgramFacts measure_peaks(const Program& program) { return PeakWalk(program).run(); }

}  // namespace headrace::schedules::detail
