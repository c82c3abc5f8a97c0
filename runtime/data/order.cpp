#include "runtime/data/order.hpp"

#include "runtime/base/check.hpp"

namespace headrace::data {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;

constexpr std::uint64_t mix(std::uint64_t z) {
  z ^= z >> 30;
  z *= 0xBF58476D1CE4E5B9U;
  z ^= z >> 27;
  z *= 0x94D049BB133111EBU;
  z ^= z >> 31;
  return z;
}

int half_bits_for(std::uint64_t sample_count) {
  int half_bits = 1;
  while (half_bits < 32 && (std::uint64_t{1} << (2 * half_bits)) < sample_count) ++half_bits;
  return half_bits;
}

}  // namespace

EpochOrder::EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t sample_count)
    : sample_count_(static_cast<std::uint64_t>(sample_count)),
      half_bits_(half_bits_for(sample_count_)),
      round_keys_{} {
  HEADRACE_CHECK(sample_count >= 1 && epoch >= 0, sample_count, epoch);
  const std::uint64_t base = mix(mix(seed + kGolden) ^ static_cast<std::uint64_t>(epoch));
  std::uint64_t counter = base;
  for (std::uint64_t& key : round_keys_) key = mix(counter += kGolden);
}

std::uint64_t EpochOrder::permute(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const std::uint64_t key : round_keys_) {
    const std::uint64_t mixed = left ^ (mix(key ^ right) >> (64 - half_bits_));
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::int64_t EpochOrder::sample_at(std::int64_t position) const {
  const auto start = static_cast<std::uint64_t>(position);
  HEADRACE_CHECK(position >= 0 && start < sample_count_, position, sample_count_);
  // Ends because the cycle of a permutation leads back to `start`, which is in range.
  std::uint64_t value = permute(start);
  while (value >= sample_count_) value = permute(value);
  return static_cast<std::int64_t>(value);
}

OrderPosition order_position(StepIndex step, std::int64_t index_in_batch,
                             const SequenceShape& shape) {
  HEADRACE_CHECK(step.value >= 1 && shape.batch_size >= 1 && shape.sample_count >= 1, step.value,
                 shape.batch_size, shape.sample_count);
  HEADRACE_CHECK(index_in_batch >= 0 && index_in_batch < shape.batch_size, index_in_batch,
                 shape.batch_size);
  const std::int64_t sequence = (step.value - 1) * shape.batch_size + index_in_batch;
  return {sequence / shape.sample_count, sequence % shape.sample_count};
}

std::int64_t epoch_of_step(StepIndex step, const SequenceShape& shape) {
  return order_position(step, 0, shape).epoch;
}

}  // namespace headrace::data
