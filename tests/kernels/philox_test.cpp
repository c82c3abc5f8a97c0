#include "kernels/philox.hpp"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <utility>

using namespace headrace::kernels;

namespace {

using Words = std::array<std::uint32_t, 4>;

// Counter words in Random123's order, as our fields carry them.
Words words_of(const Words& counter, PhiloxKey key) {
  const std::uint64_t block = counter[0] | (static_cast<std::uint64_t>(counter[1]) << 32U);
  return philox4x32(key, block, counter[2], counter[3]);
}

}  // namespace

TEST_CASE("philox: the known answers of Random123 come out") {
  CHECK(words_of({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(words_of({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(words_of({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: the key of a step is one block under the key of the seed") {
  const std::uint64_t seed = 0x299f31d0a4093822ULL;
  const std::int64_t step = static_cast<std::int64_t>(0x85a308d3243f6a88ULL);
  const PhiloxKey key = key_of_step(seed, step, 0x0370734413198a2eLL);
  CHECK(key.k0 == 0xd16cfe09U);
  CHECK(key.k1 == 0x94fdccebU);
}

TEST_CASE("philox: seeds steps and epochs give different keys") {
  std::set<std::pair<std::uint32_t, std::uint32_t>> keys;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    for (std::int64_t step = 0; step < 16; ++step) {
      for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
        const PhiloxKey key = key_of_step(seed, step, epoch);
        keys.insert({key.k0, key.k1});
      }
    }
  }
  CHECK(keys.size() == 8U * 16U * 4U);
}

TEST_CASE("philox: a site packs layer and use and keeps eight bits free") {
  CHECK(make_site(0xABCD, RandomUse::kMlpDropout) == 0xABCD0400U);
  CHECK(make_site(0, RandomUse::kInit) == 0x00000100U);
}
