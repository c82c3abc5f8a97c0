#include "runtime/comm/boundary.hpp"

#include "runtime/base/check.hpp"

namespace headrace::comm {
namespace {

constexpr unsigned kSlotBits = 16;

}  // namespace

Boundary::Boundary(const BoundaryOptions& options)
    : options_(options),
      in_use_(std::make_unique<Word[]>(static_cast<std::size_t>(options.slots))),
      ready_(std::make_unique<Word[]>(2 * static_cast<std::size_t>(options.microbatches))) {
  HEADRACE_CHECK(options.slots >= 1 && options.slots < (1 << kSlotBits) - 1, options.slots);
  HEADRACE_CHECK(options.device != nullptr && options.payload_bytes >= 0);
  slots_.reserve(static_cast<std::size_t>(options.slots));
  for (std::int32_t i = 0; i < options.slots; ++i) {
    slots_.push_back({options.device->allocate(
                          static_cast<std::size_t>(kSlotHeaderBytes + options.payload_bytes)),
                      options.device->make_event(), options.device->make_event()});
  }
}

std::int32_t Boundary::find_free() const {
  const std::int32_t count = slot_count();
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t slot = next_ + i < count ? next_ + i : next_ + i - count;
    if (in_use_[static_cast<std::size_t>(slot)].value.load(std::memory_order_acquire) == 0) {
      next_ = slot;
      return slot;
    }
  }
  return kNone;
}

void Boundary::publish(std::int32_t slot, StepIndex step, MicrobatchIndex m) {
  in_use_[static_cast<std::size_t>(slot)].value.store(1, std::memory_order_relaxed);
  next_ = slot + 1 < slot_count() ? slot + 1 : 0;
  const auto word =
      (static_cast<std::uint64_t>(step.value) << kSlotBits) | static_cast<std::uint64_t>(slot + 1);
  ready_word(step, m).value.store(word, std::memory_order_release);
}

std::int32_t Boundary::find_full(StepIndex step, MicrobatchIndex m) const {
  const std::uint64_t word = ready_word(step, m).value.load(std::memory_order_acquire);
  if ((word >> kSlotBits) != static_cast<std::uint64_t>(step.value)) {
    // The consumer alone writes it; a poll that misses again leaves the cache line where it is.
    const std::uint64_t wanted = wanted_value(step, m);
    if (wanted_.value.load(std::memory_order_relaxed) != wanted)
      wanted_.value.store(wanted, std::memory_order_release);
    return kNone;
  }
  return static_cast<std::int32_t>(word & ((1U << kSlotBits) - 1)) - 1;
}

bool Boundary::is_wanted(StepIndex step, MicrobatchIndex m) const {
  return wanted_.value.load(std::memory_order_acquire) == wanted_value(step, m);
}

void Boundary::release(std::int32_t slot) {
  in_use_[static_cast<std::size_t>(slot)].value.store(0, std::memory_order_release);
}

std::byte* Boundary::payload(std::int32_t slot) const {
  return slots_[static_cast<std::size_t>(slot)].buffer.data() + kSlotHeaderBytes;
}

kernels::Event& Boundary::full_event(std::int32_t slot) const {
  return *slots_[static_cast<std::size_t>(slot)].full;
}

kernels::Event& Boundary::free_event(std::int32_t slot) const {
  return *slots_[static_cast<std::size_t>(slot)].free;
}

std::int32_t Boundary::slots_in_use() const {
  std::int32_t used = 0;
  for (std::int32_t i = 0; i < slot_count(); ++i) {
    used += in_use_[static_cast<std::size_t>(i)].value.load(std::memory_order_acquire) != 0 ? 1 : 0;
  }
  return used;
}

// Below 2^41 steps (a replay's pass included) and M within 22 bits; never zero.
std::uint64_t Boundary::wanted_value(StepIndex step, MicrobatchIndex m) {
  return (static_cast<std::uint64_t>(step.value) << 22) |
         static_cast<std::uint64_t>(m.value & ((1 << 22) - 1));
}

Boundary::Word& Boundary::ready_word(StepIndex step, MicrobatchIndex m) const {
  const auto parity = static_cast<std::size_t>(step.value & 1);
  return ready_[parity * static_cast<std::size_t>(options_.microbatches) + m.index()];
}

}  // namespace headrace::comm
