// The gradient tree as data, against the recursive definition: left = largest power of two below n.
#include "stages/detail/block_tree.hpp"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace headrace::stages {
namespace {

std::int32_t left_of(std::int32_t count) {
  std::int32_t left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

std::string whole(std::int32_t first, std::int32_t count) {
  if (count == 1) return std::to_string(first);
  const std::int32_t left = left_of(count);
  return "(" + whole(first, left) + "+" + whole(first + left, count - left) + ")";
}

// What a rank does with everybody's roots: halves join at once, the rest from the top down.
std::string folded(const std::vector<Subtree>& roots) {
  std::vector<std::pair<Subtree, std::string>> stack;
  const auto fold = [&] {
    const auto right = stack.back();
    stack.pop_back();
    stack.back().first.count += right.first.count;
    stack.back().second = "(" + stack.back().second + "+" + right.second + ")";
  };
  for (const Subtree& root : roots) {
    stack.emplace_back(root, whole(root.first, root.count));
    while (stack.size() > 1 && are_halves(stack[stack.size() - 2].first, stack.back().first)) {
      fold();
    }
  }
  while (stack.size() > 1) fold();
  return stack.front().second;
}

TEST_CASE("block tree: roots of equal shares fold to the tree over all blocks") {
  for (std::int32_t blocks = 1; blocks <= 48; ++blocks) {
    for (std::int32_t replicas = 1; replicas <= blocks; ++replicas) {
      if (blocks % replicas != 0) continue;
      CAPTURE(blocks);
      CAPTURE(replicas);
      std::vector<Subtree> roots;
      for (std::int32_t d = 0; d < replicas; ++d) {
        const auto share = roots_of({d * (blocks / replicas), blocks / replicas});
        roots.insert(roots.end(), share.begin(), share.end());
      }
      CHECK(folded(roots) == whole(0, blocks));
    }
  }
}

TEST_CASE("block tree: roots cover the range once and none could join its neighbour") {
  for (std::int32_t first = 0; first <= 12; ++first) {
    for (std::int32_t count = 1; count <= 20; ++count) {
      std::int32_t next = first;
      const auto roots = roots_of({first, count});
      for (std::size_t i = 0; i < roots.size(); ++i) {
        CHECK(roots[i].first == next);
        CHECK(roots[i].first % roots[i].count == 0);
        if (i > 0) CHECK_FALSE(are_halves(roots[i - 1], roots[i]));
        next += roots[i].count;
      }
      CHECK(next == first + count);
    }
  }
}

TEST_CASE("block tree: a range from zero needs floor log2 plus one accumulators") {
  std::int32_t expected = 0;
  for (std::int32_t blocks = 1; blocks <= 300; ++blocks) {
    if ((blocks & (blocks - 1)) == 0) ++expected;
    CHECK(accumulators_for({0, blocks}) == expected);
  }
  // From an odd start: 1 stays alone, 2 and 3 join once 3 is there.
  CHECK(accumulators_for({1, 3}) == 3);
  CHECK(roots_of({1, 3}) == std::vector<Subtree>{{1, 1}, {2, 2}});
}

}  // namespace
}  // namespace headrace::stages
