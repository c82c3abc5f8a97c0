#include "kernels/philox.hpp"

namespace headrace::kernels {
namespace {

using Words = std::array<std::uint32_t, 4>;

constexpr std::uint32_t kMultiplier0 = 0xD2511F53;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;

constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
constexpr std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32U); }

constexpr Words one_round(Words counter, PhiloxKey key) {
  const std::uint64_t product0 = static_cast<std::uint64_t>(kMultiplier0) * counter[0];
  const std::uint64_t product1 = static_cast<std::uint64_t>(kMultiplier1) * counter[2];
  return {high(product1) ^ counter[1] ^ key.k0, low(product1), high(product0) ^ counter[3] ^ key.k1,
          low(product0)};
}

constexpr Words ten_rounds(Words counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    counter = one_round(counter, key);
    key.k0 += kWeyl0;
    key.k1 += kWeyl1;
  }
  return counter;
}

}  // namespace

PhiloxKey key_of_seed(std::uint64_t seed) { return {low(seed), high(seed)}; }

PhiloxKey key_of_step(std::uint64_t seed, std::int64_t step, std::int64_t epoch) {
  const auto s = static_cast<std::uint64_t>(step);
  const auto e = static_cast<std::uint64_t>(epoch);
  const Words mixed = ten_rounds({low(s), high(s), low(e), high(e)}, key_of_seed(seed));
  return {mixed[0], mixed[1]};
}

std::array<std::uint32_t, 4> philox4x32(PhiloxKey key, std::uint64_t element_block,
                                        std::uint32_t sample, std::uint32_t site) {
  return ten_rounds({low(element_block), high(element_block), sample, site}, key);
}

}  // namespace headrace::kernels
