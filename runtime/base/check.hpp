// HEADRACE_CHECK: an assertion that stays on in release builds, for bugs only.
//
// What it is for: a condition that our own code guarantees. It prints the condition, the place and
// the values, then aborts. What it does not do: judge input (return a Status for that). Thread
// rule: may be used on any thread.
#pragma once

#include <sstream>
#include <string>

namespace headrace {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& values);

namespace detail {
template <typename... Values>
std::string join_values(const Values&... values) {
  std::ostringstream out;
  ((out << ' ' << values), ...);
  return out.str();
}
}  // namespace detail

}  // namespace headrace

#define HEADRACE_CHECK(condition, ...)                                        \
  do {                                                                        \
    if (!(condition)) [[unlikely]]                                            \
      ::headrace::check_failed(#condition, __FILE__, __LINE__,                \
                               ::headrace::detail::join_values(__VA_ARGS__)); \
  } while (false)
