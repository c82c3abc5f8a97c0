// Small tools of the kernel tests: vectors in device memory and repeatable test values.
//
// What it is for: short tests. What it does not do: use the random numbers under test. Thread rule:
// distinct objects are independent.
#pragma once

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/dtype.hpp"
#include "kernels/operators.hpp"

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace headrace::kernels::test {

// A linear congruential generator (Knuth's MMIX constants): values in [-1, 1).
class TestValues {
 public:
  explicit TestValues(std::uint64_t seed) : state_(seed * 2 + 1) {}
  float next() {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<float>(static_cast<std::int64_t>(state_ >> 40U) - (1 << 23)) * 0x1p-23F;
  }
  std::vector<float> vector(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = next();
    return values;
  }

 private:
  std::uint64_t state_;
};

// Rounding to nearest even, written from the definition: the nearer of the two bf16 neighbours.
inline std::uint16_t bf16_of(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  const std::uint32_t below = bits >> 16U;
  const std::uint32_t rest = bits & 0xFFFFU;
  if (value != value) return static_cast<std::uint16_t>(below | 0x40U);
  const bool up = rest > 0x8000U || (rest == 0x8000U && (below & 1U) == 1U);
  return static_cast<std::uint16_t>(below + (up ? 1U : 0U));
}
inline float f32_of(std::uint16_t bf16) {
  const std::uint32_t bits = static_cast<std::uint32_t>(bf16) << 16U;
  float value = 0;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}
inline std::vector<std::uint16_t> bf16_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> result;
  result.reserve(values.size());
  for (const float value : values) result.push_back(bf16_of(value));
  return result;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  // memcmp must not be given the null pointers of empty vectors.
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// An inline CPU device with one stream.
struct TestDevice {
  explicit TestDevice(std::int32_t threads = 1, BrokenRule broken_rule = BrokenRule::kNone) {
    CpuDeviceOptions options;
    options.threads = threads;
    options.broken_rule = broken_rule;
    device = make_cpu_device(options);
    stream = device->make_stream();
  }
  Operators& operators() const { return device->operators(); }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

}  // namespace headrace::kernels::test
