// Philox4x32-10 (Salmon et al., SC 2011), the only source of randomness.
//
// What it is for: a documented format, the same on every device, never a function of rank or order:
// key = seed, with step and epoch entering by one extra Philox block; counter = (element/4: 64
// bits; sample: 32 bits; site: layer 16, use 8, reserved 8 bits). What it does not do: keep state.
// Thread rule: pure functions.
#pragma once

#include <array>
#include <cstdint>

namespace headrace::kernels {

struct PhiloxKey {
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;
};

// What a random number is used for: the `use` field of the site.
enum class RandomUse : std::uint8_t {
  kInit = 1,  // initial weights; layer = 0, sample = index of the parameter
  kEmbeddingDropout = 2,
  kAttentionDropout = 3,  // on the attention branch's output, before the residual
  kMlpDropout = 4,        // on the MLP branch's output, before the residual
};

[[nodiscard]] constexpr std::uint32_t make_site(std::uint32_t layer, RandomUse use) {
  return (layer << 16U) | (static_cast<std::uint32_t>(use) << 8U);
}

[[nodiscard]] PhiloxKey key_of_seed(std::uint64_t seed);
// One extra Philox4x32-10 block with counter (step lo, step hi, epoch lo, epoch hi) under the
// seed's key; its first two output words are the key of that step. (A single one of the ten rounds
// would not let the step reach those words.)
[[nodiscard]] PhiloxKey key_of_step(std::uint64_t seed, std::int64_t step, std::int64_t epoch);
// The four words of block element/4.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(PhiloxKey key, std::uint64_t element_block,
                                                      std::uint32_t sample, std::uint32_t site);

}  // namespace headrace::kernels
