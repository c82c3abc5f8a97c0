// Monotonic and CPU time in nanoseconds.
//
// What it is for: durations and deadlines; only the monotonic clock decides timeouts.
// What it does not do: wall-clock dates. Thread rule: free functions, safe on any thread.
#pragma once

#include <cstdint>

namespace headrace {

[[nodiscard]] std::int64_t monotonic_now_ns();
// CPU time used by the calling thread / by the whole process.
[[nodiscard]] std::int64_t thread_cpu_now_ns();
[[nodiscard]] std::int64_t process_cpu_now_ns();

}  // namespace headrace
