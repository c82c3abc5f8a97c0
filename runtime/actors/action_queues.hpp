// In which order a rank may issue the compute actions of its program.
//
// What it is for: the two policies behind one face. static: one queue, program order. greedy:
// queues (stage, F), (stage, B or I), (stage, W), never reordered inside; among ready heads the
// earliest in the program goes first, and W only when nothing else is ready, so that it fills
// waits. What it does not do: know whether an action is ready (the caller asks). Thread rule: owned
// by the rank's thread.
#pragma once

#include "schedules/action.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace headrace::actors {

class ActionQueues {
 public:
  // `actions`: one rank's list; only its compute actions are taken.
  ActionQueues(std::span<const schedules::Action> actions, bool greedy);

  void rewind();  // a new step
  [[nodiscard]] bool empty() const { return left_ == 0; }
  [[nodiscard]] std::int64_t issued() const { return total_ - left_; }
  [[nodiscard]] std::int64_t total() const { return total_; }
  // How long a prefix of the program is issued; under greedy more may be, out of order.
  [[nodiscard]] std::int64_t issued_prefix() const;

  // The queue whose head to issue now, or -1. ready(action) is asked for heads in order of
  // preference.
  template <typename Ready>
  [[nodiscard]] int choose(Ready&& ready) const {
    int fallback = -1;
    std::int64_t best = 0;
    for (std::size_t q = 0; q < queues_.size(); ++q) {
      const Queue& queue = queues_[q];
      if (queue.next == queue.entries.size()) continue;
      const Entry& head = queue.entries[queue.next];
      const std::int64_t rank = head.position + (queue.weight ? total_ : 0);
      if (fallback >= 0 && rank > best) continue;
      if (!ready(head.action)) continue;
      fallback = static_cast<int>(q);
      best = rank;
    }
    return fallback;
  }
  [[nodiscard]] const schedules::Action& head(int queue) const;
  void pop(int queue);
  // The head that comes first in the program: what a blocked rank says it waits for. @pre !empty()
  [[nodiscard]] const schedules::Action& earliest() const;

 private:
  struct Entry {
    schedules::Action action;
    std::int64_t position = 0;
  };
  struct Queue {
    bool weight = false;
    std::vector<Entry> entries;
    std::size_t next = 0;
  };

  [[nodiscard]] const Entry* first_left() const;  // null when empty

  std::vector<Queue> queues_;
  std::int64_t total_ = 0;
  std::int64_t left_ = 0;
};

}  // namespace headrace::actors
