#include "runtime/base/ids.hpp"

#include <doctest/doctest.h>

#include <concepts>
#include <type_traits>
#include <unordered_set>

using namespace headrace;

// Two kinds never convert into each other, and a bare number never becomes an id by itself.
static_assert(!std::convertible_to<Rank, StageIndex>);
static_assert(!std::is_constructible_v<Rank, StageIndex>);
static_assert(!std::convertible_to<int, Rank>);
static_assert(!std::convertible_to<Rank, int>);
static_assert(!std::convertible_to<std::int64_t, StepIndex>);
static_assert(!std::equality_comparable_with<Rank, StageIndex>);
static_assert(std::is_trivially_copyable_v<Rank> && sizeof(Rank) == sizeof(std::int32_t));

TEST_CASE("ids: a default id is zero") {
  CHECK(Rank{}.value == 0);
  CHECK(StepIndex{}.value == 0);
}

TEST_CASE("ids: order and equality follow the value") {
  for (std::int32_t a = -2; a <= 2; ++a) {
    for (std::int32_t b = -2; b <= 2; ++b) {
      CHECK((StageIndex{a} < StageIndex{b}) == (a < b));
      CHECK((StageIndex{a} == StageIndex{b}) == (a == b));
      CHECK((StepIndex{a} > StepIndex{b}) == (a > b));
    }
  }
}

TEST_CASE("ids: index is the value as a container index") {
  CHECK(MicrobatchIndex{17}.index() == std::size_t{17});
}

TEST_CASE("ids: equal ids hash alike and stay apart in a set") {
  std::unordered_set<Rank> seen;
  for (std::int32_t i = 0; i < 100; ++i) seen.insert(Rank{i % 10});
  CHECK(seen.size() == 10);
  CHECK(std::hash<Rank>{}(Rank{3}) == std::hash<Rank>{}(Rank{3}));
}

TEST_CASE("ids: a step counts beyond 32 bits") {
  CHECK(StepIndex{5'000'000'000}.value == 5'000'000'000);
}
