#include "runtime/actors/board.hpp"

#include <thread>

namespace headrace::actors {
namespace {

constexpr unsigned kKindShift = 56;
constexpr unsigned kCauseShift = 48;
constexpr unsigned kStageShift = 24;
constexpr std::uint64_t kFieldMask = (1U << 24U) - 1;

std::uint64_t pack(const BoardEntry& entry) {
  return (static_cast<std::uint64_t>(entry.action.kind) << kKindShift) |
         (static_cast<std::uint64_t>(entry.waiting) << kCauseShift) |
         ((static_cast<std::uint64_t>(entry.action.stage.value) & kFieldMask) << kStageShift) |
         (static_cast<std::uint64_t>(entry.action.microbatch.value) & kFieldMask);
}

void unpack(std::uint64_t word, BoardEntry& entry) {
  entry.action.kind = static_cast<schedules::ActionKind>(word >> kKindShift);
  entry.waiting = static_cast<WaitCause>((word >> kCauseShift) & 0xffU);
  entry.action.stage = StageIndex(static_cast<std::int32_t>((word >> kStageShift) & kFieldMask));
  entry.action.microbatch = MicrobatchIndex(static_cast<std::int32_t>(word & kFieldMask));
}

}  // namespace

const char* to_string(WaitCause cause) {
  switch (cause) {
    case WaitCause::kNone:
      return "nothing";
    case WaitCause::kActivation:
      return "activation";
    case WaitCause::kGradient:
      return "gradient";
    case WaitCause::kData:
      return "data";
    case WaitCause::kCommit:
      return "commit";
    case WaitCause::kTied:
      return "tied gradient";
    case WaitCause::kDevice:
      return "device";
    case WaitCause::kReplica:
      return "gradient of the other replica";
  }
  return "unknown";
}

Board::Board(std::int32_t ranks)
    : ranks_(ranks), cells_(std::make_unique<Cell[]>(static_cast<std::size_t>(ranks))) {}

void Board::publish(Rank rank, const BoardEntry& entry) {
  Cell& cell = cells_[rank.index()];
  const std::uint64_t sequence = cell.sequence.load(std::memory_order_relaxed);
  cell.sequence.store(sequence + 1, std::memory_order_relaxed);
  // Release stores keep the odd sequence visible before any of the fields it guards.
  cell.step.store(entry.step.value, std::memory_order_release);
  cell.position.store(entry.position, std::memory_order_release);
  cell.action.store(pack(entry), std::memory_order_release);
  cell.since_ns.store(entry.since_ns, std::memory_order_release);
  cell.sequence.store(sequence + 2, std::memory_order_release);
}

BoardEntry Board::read(Rank rank) const {
  const Cell& cell = cells_[rank.index()];
  for (;;) {
    const std::uint64_t before = cell.sequence.load(std::memory_order_acquire);
    BoardEntry entry;
    entry.step = StepIndex(cell.step.load(std::memory_order_acquire));
    entry.position = cell.position.load(std::memory_order_acquire);
    unpack(cell.action.load(std::memory_order_acquire), entry);
    entry.since_ns = cell.since_ns.load(std::memory_order_acquire);
    const std::uint64_t after = cell.sequence.load(std::memory_order_relaxed);
    if (before == after && (before & 1U) == 0) return entry;
    std::this_thread::yield();
  }
}

}  // namespace headrace::actors
