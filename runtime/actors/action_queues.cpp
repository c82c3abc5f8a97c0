#include "runtime/actors/action_queues.hpp"

#include "runtime/base/check.hpp"

#include <map>
#include <utility>

namespace headrace::actors {
namespace {

using schedules::ActionKind;

// F, B or I, W: actions of one class and stage never overtake each other.
int class_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return 0;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return 1;
    default:
      return 2;
  }
}

}  // namespace

ActionQueues::ActionQueues(std::span<const schedules::Action> actions, bool greedy) {
  std::map<std::pair<std::int32_t, int>, std::size_t> queue_of;
  for (const schedules::Action& action : actions) {
    if (!is_compute(action.kind)) continue;
    const int kind_class = class_of(action.kind);
    const auto key = greedy ? std::pair(action.stage.value, kind_class) : std::pair(0, 0);
    const auto [it, added] = queue_of.try_emplace(key, queues_.size());
    if (added) queues_.push_back({greedy && kind_class == 2, {}, 0});
    queues_[it->second].entries.push_back({action, total_++});
  }
  left_ = 0;
}

void ActionQueues::rewind() {
  for (Queue& queue : queues_) queue.next = 0;
  left_ = total_;
}

const schedules::Action& ActionQueues::head(int queue) const {
  const Queue& chosen = queues_[static_cast<std::size_t>(queue)];
  return chosen.entries[chosen.next].action;
}

void ActionQueues::pop(int queue) {
  Queue& chosen = queues_[static_cast<std::size_t>(queue)];
  HEADRACE_CHECK(chosen.next < chosen.entries.size());
  ++chosen.next;
  --left_;
}

const ActionQueues::Entry* ActionQueues::first_left() const {
  const Entry* first = nullptr;
  for (const Queue& queue : queues_) {
    if (queue.next == queue.entries.size()) continue;
    const Entry& head = queue.entries[queue.next];
    if (first == nullptr || head.position < first->position) first = &head;
  }
  return first;
}

const schedules::Action& ActionQueues::earliest() const {
  const Entry* first = first_left();
  HEADRACE_CHECK(first != nullptr);
  return first->action;
}

std::int64_t ActionQueues::issued_prefix() const {
  const Entry* first = first_left();
  return first == nullptr ? total_ : first->position;
}

}  // namespace headrace::actors
