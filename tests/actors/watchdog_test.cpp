#include "runtime/actors/watchdog.hpp"

#include <doctest/doctest.h>

namespace headrace::actors {
namespace {

using schedules::Action;
using schedules::ActionKind;

constexpr std::int64_t kSecond = 1'000'000'000;
const Action kForward{ActionKind::kForward, StageIndex(1), MicrobatchIndex(2)};
const Action kCommit{ActionKind::kCommit, {}, {}};

// A stream that says what the test wants it to say.
class ToldStream final : public kernels::Stream {
 public:
  kernels::StreamProgress told;

  void record(kernels::Event&) override {}
  void wait(const kernels::Event&) override {}
  void call_host(const kernels::HostCall&) override {}
  bool idle() const override { return false; }
  void synchronize() override {}
  Status failure() const override { return Status::ok(); }
  bool failed() const override { return false; }
  kernels::StreamProgress progress() const override { return told; }
};

bool contains(const std::optional<std::string>& text, const std::string& part) {
  return text && text->find(part) != std::string::npos;
}

// Judges once a second up to `until` seconds; the first verdict, or nothing.
std::optional<std::string> judge_until(Watchdog& watchdog, StepIndex step, std::int64_t until) {
  for (std::int64_t second = 1; second <= until; ++second) {
    if (auto verdict = watchdog.judge(second * kSecond, step)) return verdict;
  }
  return std::nullopt;
}

TEST_CASE("watchdog: a rank inside one action is named and its victims are not to blame") {
  Board board(3);
  Watchdog watchdog(board, {}, 4.0);
  board.publish(Rank(0), {StepIndex(2), 5, kForward, WaitCause::kGradient, kSecond});
  board.publish(Rank(1), {StepIndex(2), 5, kForward, WaitCause::kNone, kSecond});
  board.publish(Rank(2), {StepIndex(2), 5, kForward, WaitCause::kActivation, kSecond});
  CHECK_FALSE(judge_until(watchdog, StepIndex(2), 4));
  const auto verdict = watchdog.judge(6 * kSecond, StepIndex(2));
  CHECK(contains(verdict, "rank 1 is inside 1F2 of step 2"));
}

TEST_CASE("watchdog: a rank stuck in the step before is named too") {
  Board board(2);
  Watchdog watchdog(board, {}, 4.0);
  board.publish(Rank(0), {StepIndex(3), 0, kForward, WaitCause::kActivation, kSecond});
  board.publish(Rank(1),
                {StepIndex(2), 9, {ActionKind::kOptimizer, {}, {}}, WaitCause::kNone, kSecond});
  CHECK(contains(judge_until(watchdog, StepIndex(3), 9), "rank 1 is inside OPTIMIZER of step 2"));
}

TEST_CASE("watchdog: ranks that wait are at fault only together") {
  Board board(2);
  Watchdog watchdog(board, {}, 4.0);
  board.publish(Rank(0), {StepIndex(1), 1, kForward, WaitCause::kActivation, kSecond});
  for (std::int64_t second = 1; second < 20; ++second) {
    board.publish(Rank(1), {StepIndex(1), second, kForward, WaitCause::kNone, second * kSecond});
    CHECK_FALSE(watchdog.judge(second * kSecond, StepIndex(1)));
  }
  board.publish(Rank(1), {StepIndex(1), 20, kForward, WaitCause::kGradient, 19 * kSecond});
  std::optional<std::string> verdict;
  for (std::int64_t second = 20; second < 26 && !verdict; ++second) {
    verdict = watchdog.judge(second * kSecond, StepIndex(1));
  }
  CHECK(contains(verdict, "rank 0 waits for activation of 1F2"));
  CHECK(contains(verdict, "rank 1 waits for gradient of 1F2"));
}

TEST_CASE("watchdog: a queued device that gets on is left alone and a stuck one is named") {
  Board board(2);
  ToldStream slow;
  ToldStream other;
  Watchdog watchdog(board, {&slow, &other}, 4.0);
  for (std::int32_t r = 0; r < 2; ++r) {
    board.publish(Rank(r), {StepIndex(1), 8, kCommit, WaitCause::kDevice, kSecond});
  }
  std::int64_t second = 1;
  for (; second < 30; ++second) {
    slow.told = {static_cast<std::uint64_t>(second / 3), true};
    CHECK_FALSE(watchdog.judge(second * kSecond, StepIndex(1)));
  }
  std::optional<std::string> verdict;
  for (; second < 40 && !verdict; ++second)
    verdict = watchdog.judge(second * kSecond, StepIndex(1));
  CHECK(contains(verdict, "the device of rank 0 is inside one kernel"));
  CHECK_FALSE(contains(verdict, "device of rank 1"));
}

TEST_CASE("watchdog: a process that was stopped itself blames nobody") {
  Board board(1);
  Watchdog watchdog(board, {}, 4.0);
  board.publish(Rank(0), {StepIndex(1), 1, kForward, WaitCause::kNone, kSecond});
  CHECK_FALSE(judge_until(watchdog, StepIndex(1), 2));
  CHECK_FALSE(watchdog.judge(60 * kSecond, StepIndex(1)));
  CHECK_FALSE(watchdog.judge(61 * kSecond, StepIndex(1)));
  CHECK(contains(watchdog.judge(63 * kSecond, StepIndex(1)), "") == false);
  CHECK(contains(watchdog.judge(64 * kSecond, StepIndex(1)), "rank 0 is inside 1F2"));
}

}  // namespace
}  // namespace headrace::actors
