#include "runtime/base/log.hpp"

#include "tests/base/child_process.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace headrace;
using headrace::tests::run_in_child;

namespace {

// The log writes to the process's stderr, so a child writes and the test reads.
std::string logged(LogLevel level, std::initializer_list<LogField> fields) {
  return run_in_child([&] { log(level, "test", "thing_happened", fields); }).error_output;
}

}  // namespace

TEST_CASE("log: a line holds event component and fields in order") {
  const std::string line = logged(LogLevel::kInfo, {{"step", 3}, {"name", "block"}});
  CHECK(line.find("info thing_happened component=test step=3 name=block\n") != std::string::npos);
}

TEST_CASE("log: values that would break the line are quoted and escaped") {
  CHECK(logged(LogLevel::kError, {{"text", "a b"}}).find("text=\"a b\"") != std::string::npos);
  CHECK(logged(LogLevel::kError, {{"text", ""}}).find("text=\"\"") != std::string::npos);
  CHECK(logged(LogLevel::kError, {{"text", "a=b"}}).find("text=\"a=b\"") != std::string::npos);
  const std::string line = logged(LogLevel::kError, {{"text", "one\ntwo \"q\""}});
  CHECK(line.find(R"(text="one\ntwo \"q\"")") != std::string::npos);
  CHECK(line.find('\n') == line.size() - 1);
}

TEST_CASE("log: levels below the least one are dropped") {
  CHECK(logged(LogLevel::kDebug, {}).empty());
  const auto end = run_in_child([] {
    set_log_level(LogLevel::kError);
    log(LogLevel::kWarning, "test", "dropped");
    log(LogLevel::kError, "test", "kept");
  });
  CHECK(end.error_output.find("dropped") == std::string::npos);
  CHECK(end.error_output.find("kept") != std::string::npos);
}
