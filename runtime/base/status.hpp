// Expected failures as values: Status and Result<T>.
//
// What it is for: input, files, peers and devices fail; the caller must look. What it does not do:
// report bugs (see check.hpp) or carry exceptions across actors.
// Thread rule: values; distinct objects are independent.
#pragma once

#include "runtime/base/check.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace headrace {

enum class StatusCode {
  kOk,            // nothing failed
  kInternal,      // a bug reported as a value; nobody may retry (exit 1)
  kUsage,         // a wrong command line; the user corrects it (exit 2)
  kConfig,        // a wrong configuration or schedule; the user corrects it (exit 2)
  kData,          // training data unusable; the user corrects the file (exit 3)
  kCheckpoint,    // checkpoint unusable; the user picks another (exit 3)
  kPeerFailed,    // another process or actor failed; recovery may retry (exit 4)
  kStageFailed,   // a stage of this run failed; the run ends with its text (exit 4)
  kDeviceFailed,  // a device or its library failed (exit 4)
  kNumerics,      // NaN or overflow: no update was made (exit 5)
  kTimeout,       // a deadline passed; the caller may retry (exit 4)
  kCancelled,     // the run was told to stop; nobody retries (exit 4)
};

// The process exit code of a code (README, exit codes).
[[nodiscard]] int exit_code(StatusCode code);
[[nodiscard]] std::string_view to_string(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  [[nodiscard]] static Status ok() { return {}; }
  [[nodiscard]] bool is_ok() const { return code_ == StatusCode::kOk; }
  explicit operator bool() const { return is_ok(); }
  [[nodiscard]] StatusCode code() const { return code_; }
  // One message for a person: what, where, expected, found, what to do next.
  [[nodiscard]] const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}        // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    HEADRACE_CHECK(!std::get<Status>(state_).is_ok(), "a Result needs a value or a failure");
  }

  [[nodiscard]] bool is_ok() const { return std::holds_alternative<T>(state_); }
  explicit operator bool() const { return is_ok(); }
  // @pre is_ok()
  [[nodiscard]] T& value() & {
    HEADRACE_CHECK(is_ok(), std::get<Status>(state_).message());
    return std::get<T>(state_);
  }
  [[nodiscard]] const T& value() const& {
    HEADRACE_CHECK(is_ok(), std::get<Status>(state_).message());
    return std::get<T>(state_);
  }
  [[nodiscard]] T&& value() && {
    HEADRACE_CHECK(is_ok(), std::get<Status>(state_).message());
    return std::get<T>(std::move(state_));
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  [[nodiscard]] Status status() const { return is_ok() ? Status::ok() : std::get<Status>(state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace headrace

// Returns the failure of a Status expression from the enclosing function.
#define HEADRACE_RETURN_IF_ERROR(expr)                                         \
  do {                                                                         \
    if (::headrace::Status status_ = (expr); !status_.is_ok()) return status_; \
  } while (false)
