// The gradient tree over the reduction blocks of a step, as data.
//
// What it is for: which subtrees a run of blocks makes on its own, and when two of them become one
// ([Note: gradient tree]). What it does not do: add anything. Thread rule: pure functions over
// values.
#pragma once

#include <cstdint>
#include <vector>

namespace headrace::stages {

// A complete subtree: `count` blocks, a power of two, from `first`, a multiple of `count`.
struct Subtree {
  std::int32_t first = 0;
  std::int32_t count = 1;

  bool operator==(const Subtree&) const = default;
};

// A run of consecutive blocks.
struct BlockRange {
  std::int32_t first = 0;
  std::int32_t count = 1;
};

// Whether both are the two halves of one complete subtree, `left` before `right`.
[[nodiscard]] bool are_halves(const Subtree& left, const Subtree& right);

// The largest complete subtrees that lie wholly in `range`, ascending: what remains of it after
// every possible addition.
[[nodiscard]] std::vector<Subtree> roots_of(const BlockRange& range);

// How many sums exist at once while the blocks of `range` come one by one, the open block included;
// floor(log2 n) + 1 where the range starts at 0.
[[nodiscard]] std::int32_t accumulators_for(const BlockRange& range);

}  // namespace headrace::stages
