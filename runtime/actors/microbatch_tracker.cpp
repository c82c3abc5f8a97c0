#include "runtime/actors/microbatch_tracker.hpp"

#include <algorithm>

namespace headrace::actors {
namespace {

using schedules::Action;
using schedules::ActionKind;

// Orders the compute actions of one microbatch: forwards up the stages, then backwards down.
std::int32_t distance(const Action& action, std::int32_t stages) {
  return action.kind == ActionKind::kForward ? action.stage.value
                                             : 2 * stages - 1 - action.stage.value;
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

std::string MicrobatchTracker::furthest(StepIndex step, MicrobatchIndex m) const {
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
  return best != nullptr ? to_string(*best) : "not started";
}

std::string MicrobatchTracker::in_flight(StepIndex step) const {
  std::string text;
  for (std::int32_t m = 0; m < program_.microbatches; ++m) {
    const std::string at = furthest(step, MicrobatchIndex(m));
    if (at == "not started" ||
        at == to_string(Action{ActionKind::kBackward, StageIndex(0), MicrobatchIndex(m)})) {
      continue;
    }
    text +=
        (text.empty() ? "" : ", ") + std::string("microbatch ") + std::to_string(m) + " at " + at;
  }
  return text.empty() ? "no microbatch in flight" : text;
}

}  // namespace headrace::actors
