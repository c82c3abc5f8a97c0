// Layer kinds that only measure the runtime around them.
//
// What it is for: `bench_empty` does nothing; `bench_sleep` holds its stream for a fixed time per
// call;
// `bench_uneven` does so for a time that changes with stage and microbatch; of `bench_slow` one
// stage of four, another for each microbatch, is slow. What it does not do: compute. Thread rule:
// register once, before the first plan is made.
#pragma once

#include <cstdint>

namespace headrace::bench {

inline constexpr const char* kEmptyLayer = "bench_empty";
inline constexpr const char* kSleepLayer = "bench_sleep";
inline constexpr const char* kUnevenLayer = "bench_uneven";
inline constexpr const char* kSlowLayer = "bench_slow";

// Sleeps of one stage's actions, in nanoseconds.
inline constexpr std::int64_t kSleepForwardNs = 5'000'000;
inline constexpr std::int64_t kSleepInputNs = 6'000'000;
inline constexpr std::int64_t kSleepWeightNs = 5'000'000;

void register_probe_layers();

}  // namespace headrace::bench
