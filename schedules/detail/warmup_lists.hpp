// The list of a rank that warms up with forwards and then alternates.
//
// What it is for: 1f1b and eager_1f1b differ in the length of the warm-up only. What it does not
// do: place stages. Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/detail/generators.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::schedules::detail {

// min(count, warmup) forwards of `stage`, then one forward and one backward in turn, then what is
// left of the backwards; microbatches ascend from 0.
inline void append_one_f_one_b(std::int32_t count, std::int32_t stage, std::int32_t warmup,
                               std::vector<Action>* list) {
  list->reserve(list->size() + 2 * static_cast<std::size_t>(count));
  const std::int32_t ahead = std::min(count, warmup);
  for (std::int32_t m = 0; m < ahead; ++m)
    list->push_back(make_action(ActionKind::kForward, stage, m));
  for (std::int32_t m = 0; m < count; ++m) {
    if (ahead + m < count) list->push_back(make_action(ActionKind::kForward, stage, ahead + m));
    list->push_back(make_action(ActionKind::kBackward, stage, m));
  }
}

}  // namespace headrace::schedules::detail
