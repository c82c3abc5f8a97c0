#include "runtime/actors/microbatch_tracker.hpp"

#include <algorithm>

namespace headrace::actors {
namespace {

using schedules::Action;
using schedules::ActionKind;

// Orders the compute actions of one microbatch: forwards up the stages, then backwards down, the
// weight half of a stage after its input half.
std::int32_t distance(const Action& action, std::int32_t stages) {
  const std::int32_t stage = action.stage.value;
  if (action.kind == ActionKind::kForward) return 2 * stage;
  return 2 * (2 * stages - 1 - stage) + (action.kind == ActionKind::kBackwardInput ? 0 : 1);
}

}  // namespace

MicrobatchTracker::MicrobatchTracker(const schedules::Program& program)
    : program_(program), positions_(static_cast<std::size_t>(program.ranks)) {}

void MicrobatchTracker::report(Rank rank, StepIndex step, std::int64_t position) {
  Position& known = positions_[rank.index()];
  if (step < known.step) return;
  known.issued = step == known.step ? std::max(known.issued, position) : position;
  known.step = step;
}

const Action* MicrobatchTracker::furthest_action(StepIndex step, MicrobatchIndex m) const {
  const Action* best = nullptr;
  for (std::size_t r = 0; r < positions_.size(); ++r) {
    if (positions_[r].step != step) continue;
    const auto& actions = program_.actions[r];
    const auto issued = std::min(positions_[r].issued, static_cast<std::int64_t>(actions.size()));
    for (std::int64_t i = 0; i < issued; ++i) {
      const Action& action = actions[static_cast<std::size_t>(i)];
      if (!is_compute(action.kind) || action.microbatch != m) continue;
      if (best == nullptr || distance(action, program_.stages) > distance(*best, program_.stages)) {
        best = &action;
      }
    }
  }
  return best;
}

std::string MicrobatchTracker::furthest(StepIndex step, MicrobatchIndex m) const {
  const Action* best = furthest_action(step, m);
  return best != nullptr ? to_string(*best) : "not started";
}

std::string MicrobatchTracker::in_flight(StepIndex step) const {
  std::string text;
  for (std::int32_t m = 0; m < program_.microbatches; ++m) {
    const Action* at = furthest_action(step, MicrobatchIndex(m));
    const bool finished = at != nullptr && at->stage == StageIndex(0) &&
                          at->kind != ActionKind::kForward &&
                          at->kind != ActionKind::kBackwardInput;
    if (at == nullptr || finished) continue;
    text += (text.empty() ? "" : ", ") + std::string("microbatch ") + std::to_string(m) + " at " +
            to_string(*at);
  }
  return text.empty() ? "no microbatch in flight" : text;
}

}  // namespace headrace::actors
