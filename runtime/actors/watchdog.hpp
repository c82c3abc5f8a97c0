// The watchdog: says who is stuck, from the boards and the streams' progress.
//
// What it is for: no hang without a named culprit. A rank inside one action for longer than the
// limit is the culprit, whatever the others wait for; so is a device whose stream is inside one
// kernel. Ranks that wait are only at fault together, since one of them may wait for a rank that is
// busy and well. What it does not do: stop anything. Thread rule: owned by one thread; boards and
// streams are shared.
//
// A process that was stopped itself (SIGSTOP, a suspended machine) finds every stamp old: when a
// judgement comes much later than the one before, all clocks start anew.
#pragma once

#include "kernels/device.hpp"
#include "runtime/actors/board.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::actors {

class Watchdog {
 public:
  // Judgements further apart than this mean that this process did not run in between.
  static constexpr std::int64_t kLateNs = 3'000'000'000;

  // streams: [rank]; an entry may be null. All outlive the watchdog.
  Watchdog(const Board& board, std::vector<const kernels::Stream*> streams, double limit_seconds);

  // Who is stuck while `step` is open, or nothing. Call about once a second.
  [[nodiscard]] std::optional<std::string> judge(std::int64_t now_ns, StepIndex step);
  // Whether something that began at `since_ns` is over the limit. Uses the newest judgement's
  // clock.
  [[nodiscard]] bool is_late(std::int64_t now_ns, std::int64_t since_ns) const;

 private:
  struct StreamView {
    std::uint64_t finished = 0;
    std::int64_t moved_ns = 0;  // when `finished` last changed
  };

  // Text when rank's stream is inside one kernel for too long.
  [[nodiscard]] std::string stuck_kernel(Rank rank, std::int64_t now_ns);

  const Board& board_;
  const std::vector<const kernels::Stream*> streams_;
  const double limit_ns_;
  std::vector<StreamView> views_;
  std::int64_t judged_ns_ = 0;
  std::int64_t clock_start_ns_ = 0;  // nothing counts as older
};

}  // namespace headrace::actors
