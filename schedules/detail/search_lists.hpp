// List scheduling: one order for one set of rules, made by letting every rank decide what to run
// next with what it knows at that moment.
//
// What it is for: the starting points of the search behind `auto`; the rules are the choices that
// zero-bubble's heuristic (arXiv 2401.10241, section 3.1) tries in turn. What it does not do:
// improve an order. Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/detail/search_model.hpp"

#include <cstdint>

namespace headrace::schedules::detail {

struct ListRules {
  // A stage starts no forward while it has this many (plus `window_base`) forwards without input
  // gradient, counted in the microbatches that pass while one goes to the last stage and back.
  // Infinite: only the limit binds.
  double window = kNoTime;
  std::int32_t window_base = 0;
  // How far a forward (a weight gradient) may reach into the known arrival of an input gradient
  // (of any input), as a share of its own duration. 0 = leave a bubble instead.
  double forward_slack = 0;
  double weight_slack = 0;
  bool alternates = false;  // after an input gradient a forward goes first
  bool deep_first = true;   // among several ready stages the one nearer to the loss goes first
  // More weight gradients than this times the rank wait: one goes before the next forward.
  double weight_lag = kNoTime;
  // Microbatches per group of the order all ranks share where boundaries share a link; 0 = none.
  std::int32_t group = 0;
};

// False when the rules end with ranks that wait for each other.
[[nodiscard]] bool make_list(const SearchModel& model, const ListRules& rules, Orders* orders);

}  // namespace headrace::schedules::detail
