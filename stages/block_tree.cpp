#include "stages/detail/block_tree.hpp"

#include <algorithm>

namespace headrace::stages {
namespace {

// Takes the next block and makes every addition that it completes.
void push_block(std::vector<Subtree>& stack, std::int32_t block) {
  stack.push_back({block, 1});
  while (stack.size() > 1 && are_halves(stack[stack.size() - 2], stack.back())) {
    stack.pop_back();
    stack.back().count *= 2;
  }
}

}  // namespace

bool are_halves(const Subtree& left, const Subtree& right) {
  return left.count == right.count && left.first + left.count == right.first &&
         left.first % (2 * left.count) == 0;
}

std::vector<Subtree> roots_of(const BlockRange& range) {
  std::vector<Subtree> roots;
  for (std::int32_t i = 0; i < range.count; ++i) push_block(roots, range.first + i);
  return roots;
}

std::int32_t accumulators_for(const BlockRange& range) {
  std::vector<Subtree> stack;
  std::size_t most = 1;
  for (std::int32_t i = 0; i < range.count; ++i) {
    most = std::max(most, stack.size() + 1);
    push_block(stack, range.first + i);
  }
  return static_cast<std::int32_t>(most);
}

}  // namespace headrace::stages
