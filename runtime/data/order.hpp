// The order of samples: a pure function of (seed, epoch, position), nothing stored.
//
// What it is for: every process, also those that read no data, knows which sample any step uses and
// which epoch it is in; a resume needs only the step. What it does not do: read data.
// Thread rule: values and free functions; safe on any thread.
//
// Format, version 1 (a golden test holds it; all arithmetic modulo 2^64):
//
//   mix(z):   z ^= z >> 30; z *= 0xBF58476D1CE4E5B9;
//             z ^= z >> 27; z *= 0x94D049BB133111EB;
//             z ^= z >> 31
//   G       = 0x9E3779B97F4A7C15
//   base    = mix(mix(seed + G) ^ epoch)
//   key[r]  = mix(base + (r + 1) * G), r = 0..9
//   h       = the least number >= 1 with 4^h >= n; the domain is [0, 4^h)
//
//   permute(x): L = x >> h; R = the low h bits of x;
//               for r = 0..9: (L, R) = (R, L ^ (mix(key[r] ^ R) >> (64 - h)));
//               the result is L << h | R
//   sample(position): x = permute(position); x = permute(x) while x >= n (cycle walking)
#pragma once

#include "runtime/base/ids.hpp"

#include <array>
#include <cstdint>

namespace headrace::data {

enum class OrderKind {
  kShuffled,    // a permutation of its own for each epoch
  kSequential,  // file order, for evaluation
};

// The permutation of one epoch.
class EpochOrder {
 public:
  // @pre sample_count >= 1, epoch >= 0
  EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t sample_count);
  // @pre 0 <= position < sample_count; the result is in the same range.
  [[nodiscard]] std::int64_t sample_at(std::int64_t position) const;

 private:
  static constexpr int kRounds = 10;
  [[nodiscard]] std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t sample_count_;
  int half_bits_;
  std::array<std::uint64_t, kRounds> round_keys_;
};

// A place in the endless sequence of samples.
struct OrderPosition {
  std::int64_t epoch = 0;     // 0 for the first pass
  std::int64_t position = 0;  // within the epoch, 0..sample_count-1

  friend bool operator==(const OrderPosition&, const OrderPosition&) = default;
};

struct SequenceShape {
  std::int64_t batch_size = 0;    // samples per step, over all replicas
  std::int64_t sample_count = 0;  // samples per epoch
};

// Sequence number q = (step - 1) * batch_size + index_in_batch; epoch = q / n, position = q % n. A
// batch may cross into the next epoch, and one larger than the data crosses several.
// @pre step >= 1, both sizes >= 1, 0 <= index_in_batch < batch_size
[[nodiscard]] OrderPosition order_position(StepIndex step, std::int64_t index_in_batch,
                                           const SequenceShape& shape);
// The epoch of the step's first sample: what a rank shows that reads no data.
[[nodiscard]] std::int64_t epoch_of_step(StepIndex step, const SequenceShape& shape);

}  // namespace headrace::data
