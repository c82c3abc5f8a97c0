#include "runtime/base/clock.hpp"

#include <ctime>

namespace headrace {
namespace {

std::int64_t read_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

std::int64_t monotonic_now_ns() { return read_ns(CLOCK_MONOTONIC); }
std::int64_t thread_cpu_now_ns() { return read_ns(CLOCK_THREAD_CPUTIME_ID); }
std::int64_t process_cpu_now_ns() { return read_ns(CLOCK_PROCESS_CPUTIME_ID); }

}  // namespace headrace
