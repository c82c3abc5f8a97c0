// Local search: shift actions inside the lists of ranks while the price falls.
//
// What it is for: the last step of the search behind `auto`. What it does not do: use a clock or a
// true random source; equal arguments give equal orders. Thread rule: free functions, safe on any
// thread.
#pragma once

#include "schedules/detail/search_model.hpp"

#include <cstdint>

namespace headrace::schedules::detail {

// Threshold accepting (a shift that makes the price worse by less than a shrinking threshold
// stands) with `tries` prices. `orders` must be complete and within the limit, and becomes the best
// order met; returns its price, never worse than at the start.
Score improve(const SearchModel& model, std::int64_t tries, std::uint64_t seed, Orders* orders);

}  // namespace headrace::schedules::detail
