#include "runtime/base/clock.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace headrace;

TEST_CASE("clock: the monotonic clock never goes back") {
  std::int64_t before = monotonic_now_ns();
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t now = monotonic_now_ns();
    REQUIRE(now >= before);
    before = now;
  }
}

TEST_CASE("clock: CPU time of thread and process rises with work") {
  const std::int64_t thread_before = thread_cpu_now_ns();
  const std::int64_t process_before = process_cpu_now_ns();
  volatile std::uint64_t sum = 0;
  while (thread_cpu_now_ns() - thread_before < 2'000'000) sum = sum + 1;
  // The kernel accounts the two clocks at different moments: the grace is a quarter of the work.
  CHECK(process_cpu_now_ns() - process_before >= 1'500'000);
}

TEST_CASE("clock: CPU time of a thread is at most the time that passed") {
  const std::int64_t wall_before = monotonic_now_ns();
  const std::int64_t cpu_before = thread_cpu_now_ns();
  volatile std::uint64_t sum = 0;
  for (int i = 0; i < 100'000; ++i) sum = sum + 1;
  const std::int64_t cpu = thread_cpu_now_ns() - cpu_before;
  const std::int64_t wall = monotonic_now_ns() - wall_before;
  CHECK(cpu > 0);
  // The two clocks are read one after the other and tick apart: one millisecond of grace.
  CHECK(cpu <= wall + 1'000'000);
}
