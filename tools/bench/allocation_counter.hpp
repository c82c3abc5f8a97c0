// Counts heap allocations of this process, by the code that asked.
//
// What it is for: "no allocation in steady state" as a count. The bench binary replaces operator
// new and malloc; while counting is on, each call adds to its caller's entry in a fixed table.
// What it does not do: see memory mapped directly. Thread rule: counting is safe on any thread;
// start, stop and report by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::bench {

void start_counting_allocations();  // forgets what was counted before
void stop_counting_allocations();
// Allocations since the start, by all threads / by the calling thread.
[[nodiscard]] std::int64_t allocations_of_process();
[[nodiscard]] std::int64_t allocations_counted();

// Bytes held and no longer freed since the start, as the allocator rounds them: the most at any
// moment. Apart from counting; what was held before and is freed meanwhile would lower it.
void start_following_bytes();
[[nodiscard]] std::int64_t stop_following_bytes();

struct AllocationSource {
  std::string library;   // `libdnnl.so.2`; empty for this binary
  std::string function;  // nearest exported name; empty when unknown
  std::int64_t count = 0;
};
// Most first.
[[nodiscard]] std::vector<AllocationSource> allocation_sources();

}  // namespace headrace::bench
