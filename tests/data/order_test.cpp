#include "runtime/data/order.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace headrace::data {
namespace {

using Order = std::vector<std::int64_t>;

Order whole_order(std::uint64_t seed, std::int64_t epoch, std::int64_t sample_count) {
  const EpochOrder order(seed, epoch, sample_count);
  Order samples;
  for (std::int64_t i = 0; i < sample_count; ++i) samples.push_back(order.sample_at(i));
  return samples;
}

// The values were computed from the text of the header by a program in another language.
TEST_CASE("order: golden values of format version 1") {
  CHECK(whole_order(1, 0, 10) == Order{3, 8, 4, 6, 7, 0, 5, 1, 9, 2});
  CHECK(whole_order(1, 1, 10) == Order{5, 4, 8, 6, 3, 2, 1, 9, 0, 7});
  CHECK(whole_order(2, 0, 10) == Order{2, 8, 5, 6, 3, 0, 7, 9, 4, 1});
  CHECK(whole_order(1, 0, 1) == Order{0});
  CHECK(whole_order(1, 0, 2) == Order{0, 1});
  CHECK(whole_order(7, 3, 17) == Order{0, 4, 9, 6, 8, 5, 15, 11, 7, 12, 14, 3, 10, 1, 2, 13, 16});
  const EpochOrder million(std::numeric_limits<std::uint64_t>::max(), 5, 1000003);
  CHECK(million.sample_at(0) == 457247);
  CHECK(million.sample_at(1) == 541233);
  CHECK(million.sample_at(500000) == 677460);
  CHECK(million.sample_at(1000002) == 109635);
}

TEST_CASE("order: golden values at the ends of the range of samples") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  const EpochOrder exact(42, std::int64_t{1} << 40, kHuge);
  CHECK(exact.sample_at(0) == 1641480450153582168);
  CHECK(exact.sample_at(kHuge / 2) == 1414118752728913037);
  CHECK(exact.sample_at(kHuge - 1) == 2663822290972754332);
  const EpochOrder greatest(42, 0, std::numeric_limits<std::int64_t>::max());
  CHECK(greatest.sample_at(0) == 5314968108062472084);
  CHECK(greatest.sample_at(1) == 927247417269671427);
  CHECK(greatest.sample_at(kHuge) == 341481470818147556);
}

TEST_CASE("order: a permutation for every count up to 300") {
  for (std::int64_t count = 1; count <= 300; ++count) {
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<bool> seen(static_cast<std::size_t>(count), false);
      for (const std::int64_t sample : whole_order(99, epoch, count)) {
        REQUIRE(sample >= 0);
        REQUIRE(sample < count);
        REQUIRE_FALSE(seen[static_cast<std::size_t>(sample)]);
        seen[static_cast<std::size_t>(sample)] = true;
      }
    }
  }
}

TEST_CASE("order: epochs and seeds have orders of their own") {
  std::set<Order> orders;
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) orders.insert(whole_order(seed, epoch, 64));
  }
  CHECK(orders.size() == 1000);
}

// Each of n samples should stand at each of n places equally often over the epochs: chi-square with
// (n-1)^2 degrees of freedom, refused beyond 6 standard deviations.
TEST_CASE("order: each sample stands at each place equally often") {
  constexpr int kEpochs = 20000;
  for (const std::int64_t count : {2, 3, 5, 8, 16, 17, 21}) {
    const auto n = static_cast<std::size_t>(count);
    std::vector<int> hits(n * n, 0);
    for (std::int64_t epoch = 0; epoch < kEpochs; ++epoch) {
      const Order order = whole_order(2024, epoch, count);
      for (std::size_t i = 0; i < n; ++i) ++hits[i * n + static_cast<std::size_t>(order[i])];
    }
    const double expected = static_cast<double>(kEpochs) / static_cast<double>(count);
    double chi_square = 0.0;
    for (const int hit : hits) chi_square += (hit - expected) * (hit - expected) / expected;
    const auto freedom = static_cast<double>((n - 1) * (n - 1));
    CAPTURE(count);
    CAPTURE(chi_square);
    CHECK(std::abs(chi_square - freedom) < 6.0 * std::sqrt(2.0 * freedom) + 6.0);
  }
}

// Neighbours in the file should not stay neighbours: of n - 1 steps about 2 are +1 or -1.
TEST_CASE("order: neighbours are scattered") {
  const Order order = whole_order(5, 0, 10000);
  int neighbours = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (std::abs(order[i] - order[i - 1]) == 1) ++neighbours;
  }
  CHECK(neighbours < 12);
}

TEST_CASE("order: positions count through steps and epochs") {
  const SequenceShape shape{4, 6};
  std::int64_t sequence = 0;
  for (std::int64_t step = 1; step <= 20; ++step) {
    CHECK(epoch_of_step(StepIndex(step), shape) == sequence / 6);
    for (std::int64_t b = 0; b < 4; ++b, ++sequence) {
      CHECK(order_position(StepIndex(step), b, shape) == OrderPosition{sequence / 6, sequence % 6});
    }
  }
}

TEST_CASE("order: late steps do not overflow") {
  const SequenceShape shape{1 << 20, 1000};
  const OrderPosition place = order_position(StepIndex(std::int64_t{1} << 42), 0, shape);
  CHECK(place.epoch == ((std::int64_t{1} << 42) - 1) * 1048576 / 1000);
  CHECK(place.position == ((std::int64_t{1} << 42) - 1) * 1048576 % 1000);
}

TEST_CASE("case C78: thirty five steps over ten batches end in epoch three") {
  const SequenceShape shape{4, 40};
  const std::vector<std::int64_t> first_steps = {1, 11, 21, 31};
  for (std::int64_t step = 1; step <= 35; ++step) {
    std::int64_t expected = -1;
    for (const std::int64_t first : first_steps) expected += step >= first ? 1 : 0;
    CHECK(epoch_of_step(StepIndex(step), shape) == expected);
  }
  CHECK(epoch_of_step(StepIndex(35), shape) == 3);
}

}  // namespace
}  // namespace headrace::data
