#include "runtime/base/status.hpp"

#include "tests/base/child_process.hpp"

#include <doctest/doctest.h>

#include <array>
#include <csignal>
#include <memory>
#include <set>
#include <string>

using namespace headrace;
using headrace::tests::run_in_child;

namespace {

struct CodeRow {
  StatusCode code;
  int exit;
  const char* text;
};

// Exit codes: 0 done, 1 bug, 2 usage or config, 3 data or checkpoint, 4 peer or device, 5
// numbers.
constexpr std::array kCodes = {
    CodeRow{StatusCode::kOk, 0, "ok"},
    CodeRow{StatusCode::kInternal, 1, "internal"},
    CodeRow{StatusCode::kUsage, 2, "usage"},
    CodeRow{StatusCode::kConfig, 2, "config"},
    CodeRow{StatusCode::kData, 3, "data"},
    CodeRow{StatusCode::kCheckpoint, 3, "checkpoint"},
    CodeRow{StatusCode::kPeerFailed, 4, "peer_failed"},
    CodeRow{StatusCode::kStageFailed, 4, "stage_failed"},
    CodeRow{StatusCode::kDeviceFailed, 4, "device_failed"},
    CodeRow{StatusCode::kNumerics, 5, "numerics"},
    CodeRow{StatusCode::kTimeout, 4, "timeout"},
    CodeRow{StatusCode::kCancelled, 4, "cancelled"},
};

Status require_positive(int number) {
  if (number <= 0) return {StatusCode::kUsage, "expected a positive number"};
  return Status::ok();
}

Status require_both(int first, int second) {
  HEADRACE_RETURN_IF_ERROR(require_positive(first));
  HEADRACE_RETURN_IF_ERROR(require_positive(second));
  return Status::ok();
}

Result<int> half_of(int number) {
  if (number % 2 != 0) return Status{StatusCode::kData, "expected an even number"};
  return number / 2;
}

}  // namespace

TEST_CASE("status: the table of codes is complete and in order") {
  // A code added at the end of the enum has to be added to the table, or this fails.
  const int last = static_cast<int>(kCodes.size()) - 1;
  for (int i = 0; i <= last; ++i) CHECK(static_cast<int>(kCodes[static_cast<size_t>(i)].code) == i);
  CHECK(to_string(static_cast<StatusCode>(last + 1)) == "unknown");
  CHECK(exit_code(static_cast<StatusCode>(last + 1)) == 1);
}

TEST_CASE("status: every code has its documented exit code and its own text") {
  std::set<std::string> texts;
  for (const CodeRow& row : kCodes) {
    CHECK(exit_code(row.code) == row.exit);
    CHECK(to_string(row.code) == row.text);
    texts.emplace(to_string(row.code));
  }
  CHECK(texts.size() == kCodes.size());
}

TEST_CASE("status: only kOk is ok and every failure keeps its message") {
  CHECK(Status::ok().is_ok());
  CHECK(Status{}.message().empty());
  for (const CodeRow& row : kCodes) {
    const Status status{row.code, "what and where"};
    CHECK(status.is_ok() == (row.code == StatusCode::kOk));
    CHECK(static_cast<bool>(status) == status.is_ok());
    CHECK(status.code() == row.code);
    CHECK(status.message() == "what and where");
  }
}

TEST_CASE("status: the return macro leaves at the first failure") {
  CHECK(require_both(1, 1).is_ok());
  CHECK(require_both(0, 1).code() == StatusCode::kUsage);
  CHECK(require_both(1, 0).code() == StatusCode::kUsage);
}

TEST_CASE("result: a value comes out as it went in") {
  const Result<int> result = half_of(8);
  REQUIRE(result.is_ok());
  CHECK(result.value() == 4);
  CHECK(*result == 4);
  CHECK(result.status().is_ok());
}

TEST_CASE("result: a failure keeps code and message") {
  const Result<int> result = half_of(7);
  CHECK_FALSE(result.is_ok());
  CHECK_FALSE(static_cast<bool>(result));
  CHECK(result.status().code() == StatusCode::kData);
  CHECK(result.status().message() == "expected an even number");
}

TEST_CASE("result: holds and gives away values that only move") {
  Result<std::unique_ptr<int>> result{std::make_unique<int>(5)};
  REQUIRE(result.is_ok());
  CHECK(**result == 5);
  const std::unique_ptr<int> taken = std::move(result).value();
  CHECK(*taken == 5);
}

TEST_CASE("result: reading the value of a failure aborts with its message") {
  const auto end = run_in_child([] { static_cast<void>(half_of(7).value()); });
  CHECK(end.signal == SIGABRT);
  CHECK(end.error_output.find("expected an even number") != std::string::npos);
}

TEST_CASE("result: building one from an ok status aborts") {
  const auto end = run_in_child([] { static_cast<void>(Result<int>{Status::ok()}); });
  CHECK(end.signal == SIGABRT);
  CHECK(end.error_output.find("a value or a failure") != std::string::npos);
}
