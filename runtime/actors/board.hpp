// The board: what each rank is doing, readable by anybody without asking.
//
// What it is for: status, progress lines, the watchdog and hang reports read it; a CPU rank
// computes inside its thread and could not answer a message. What it does not do: control anything.
// Thread rule: one writer per entry (the rank's thread); any number of readers. Each entry is a
// sequence lock over atomic fields.
#pragma once

#include "runtime/base/ids.hpp"
#include "schedules/action.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace headrace::actors {

enum class WaitCause : std::uint8_t {
  kNone,
  kActivation,
  kGradient,
  kData,
  kCommit,
  kTied,
  kDevice,
  kReplica
};
[[nodiscard]] const char* to_string(WaitCause cause);

struct BoardEntry {
  StepIndex step{0};
  std::int64_t position = 0;  // actions of the step issued so far
  schedules::Action action;   // running, or waited for
  WaitCause waiting = WaitCause::kNone;
  std::int64_t since_ns = 0;  // monotonic
};

class Board {
 public:
  explicit Board(std::int32_t ranks);

  void publish(Rank rank, const BoardEntry& entry);
  [[nodiscard]] BoardEntry read(Rank rank) const;
  [[nodiscard]] std::int32_t ranks() const { return ranks_; }

 private:
  struct alignas(64) Cell {
    std::atomic<std::uint64_t> sequence{0};
    std::atomic<std::int64_t> step{0};
    std::atomic<std::int64_t> position{0};
    std::atomic<std::uint64_t> action{0};  // kind, waiting, stage, microbatch packed
    std::atomic<std::int64_t> since_ns{0};
  };

  std::int32_t ranks_;
  std::unique_ptr<Cell[]> cells_;
};

}  // namespace headrace::actors
