// A boundary: the slots between stage s and s+1 for one kind of transfer, inside one process.
//
// What it is for: a transfer is the hand-over of a slot. The producer fills a free slot and
// publishes it under (step, microbatch); the consumer finds it there, reads it in place, and gives
// it back. No copy, no allocation, no message. What it does not do: wake anybody (the caller
// rings), or move bytes between processes.
//
// Thread rule: one producer thread and one consumer thread (they may be the same); nobody else.
//
// Invariants
//  1. A slot belongs to the producer while free or being filled, to the consumer once published.
//  2. The word of (step parity, microbatch) carries the step, so that nothing has to be reset: a
//  receiver
//     accepts step and step+1.
//  3. `full_event` is recorded by the producer's stream before publish, `free_event` by the
//  consumer's
//     before release; the other side's stream waits for it before it touches the bytes.
#pragma once

#include "kernels/device.hpp"
#include "runtime/base/ids.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace headrace::comm {

// Bytes kept free in front of each slot's payload for a transport's header.
inline constexpr std::int64_t kSlotHeaderBytes = 256;

enum class TransferKind : std::uint8_t { kActivation, kGradient, kTiedGradient, kRoots };

struct BoundaryOptions {
  StageIndex stage{0};  // between this stage and the next
  TransferKind kind = TransferKind::kActivation;
  std::int64_t payload_bytes = 0;
  std::int32_t slots = 2;             // >= 1
  std::int32_t microbatches = 1;      // M
  kernels::Device* device = nullptr;  // where the slots live; must outlive the boundary
};

class Boundary {
 public:
  static constexpr std::int32_t kNone = -1;

  explicit Boundary(const BoundaryOptions& options);

  // Producer: a slot it may fill, or kNone (no credit). Claims nothing.
  [[nodiscard]] std::int32_t find_free() const;
  // Producer: hands slot over. @pre the slot came from find_free and its full_event was recorded
  void publish(std::int32_t slot, StepIndex step, MicrobatchIndex m);
  // Consumer: the slot published under (step, m), or kNone.
  [[nodiscard]] std::int32_t find_full(StepIndex step, MicrobatchIndex m) const;
  // Anybody: whether the consumer has looked for (step, m) and not found it: its receive is posted.
  [[nodiscard]] bool is_wanted(StepIndex step, MicrobatchIndex m) const;
  // Consumer: gives the slot back. @pre its free_event was recorded
  void release(std::int32_t slot);

  [[nodiscard]] std::byte* payload(std::int32_t slot) const;
  [[nodiscard]] kernels::Event& full_event(std::int32_t slot) const;
  [[nodiscard]] kernels::Event& free_event(std::int32_t slot) const;
  [[nodiscard]] std::int32_t slot_count() const { return static_cast<std::int32_t>(slots_.size()); }
  [[nodiscard]] std::int32_t slots_in_use() const;
  [[nodiscard]] const BoundaryOptions& options() const { return options_; }

 private:
  struct Slot {
    kernels::Buffer buffer;
    std::unique_ptr<kernels::Event> full;
    std::unique_ptr<kernels::Event> free;
  };
  // Each word on a cache line of its own: both sides poll them.
  struct alignas(64) Word {
    std::atomic<std::uint64_t> value{0};
  };

  [[nodiscard]] static std::uint64_t wanted_value(StepIndex step, MicrobatchIndex m);
  [[nodiscard]] Word& ready_word(StepIndex step, MicrobatchIndex m) const;

  // Constant after construction.
  BoundaryOptions options_;
  std::vector<Slot> slots_;
  // Shared words.
  std::unique_ptr<Word[]> in_use_;  // [slot] 0 free, 1 published
  std::unique_ptr<Word[]> ready_;   // [2][M] (step << 16) | (slot + 1)
  mutable Word wanted_;             // what the consumer last missed
  // Owned by the producer: where the next search begins.
  mutable std::int32_t next_ = 0;
};

}  // namespace headrace::comm
