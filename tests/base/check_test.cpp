#include "runtime/base/check.hpp"

#include "tests/base/child_process.hpp"

#include <doctest/doctest.h>

#include <csignal>
#include <string>

using headrace::tests::ChildEnd;
using headrace::tests::run_in_child;

TEST_CASE("check: a true condition has no effect") {
  const ChildEnd end = run_in_child([] { HEADRACE_CHECK(1 + 1 == 2, "never printed"); });
  CHECK(end.exit_status == 0);
  CHECK(end.error_output.empty());
}

TEST_CASE("check: a false condition aborts and prints condition place and values") {
  const ChildEnd end = run_in_child([] {
    const int found = 7;
    HEADRACE_CHECK(found == 8, "found", found);
  });
  CHECK(end.signal == SIGABRT);
  CHECK(end.error_output.find("found == 8") != std::string::npos);
  CHECK(end.error_output.find("check_test.cpp:") != std::string::npos);
  CHECK(end.error_output.find("found 7") != std::string::npos);
}

TEST_CASE("check: values are optional") {
  const ChildEnd end = run_in_child([] { HEADRACE_CHECK(false); });
  CHECK(end.signal == SIGABRT);
  CHECK(end.error_output.find("check failed: false") != std::string::npos);
}

TEST_CASE("check: the condition is evaluated exactly once") {
  int evaluations = 0;
  HEADRACE_CHECK(++evaluations == 1);
  CHECK(evaluations == 1);
}
