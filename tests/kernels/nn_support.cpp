#include "tests/kernels/nn_support.hpp"

#include "tests/kernels/instruction_sets.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace headrace::kernels::nn_tests {
namespace {

// SplitMix64.
std::uint64_t next_word(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31U);
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

Floats random_floats(std::int64_t count, std::uint64_t seed, float amplitude) {
  Floats values(static_cast<std::size_t>(count));
  for (float& v : values) {
    const auto word = static_cast<std::int32_t>(next_word(seed) >> 40U) - (1 << 23);
    v = amplitude * static_cast<float>(word) / static_cast<float>(1 << 23);
  }
  return values;
}

std::vector<std::int32_t> random_ids(std::int64_t count, std::int32_t below, std::uint64_t seed) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
  for (auto& id : ids) {
    id = static_cast<std::int32_t>(next_word(seed) % static_cast<std::uint64_t>(below));
  }
  return ids;
}

Doubles to_doubles(const Floats& values) { return {values.begin(), values.end()}; }

float float_of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::uint16_t bf16_of(float value) {
  const auto down = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
  if (std::isnan(value)) return static_cast<std::uint16_t>(down | 0x40U);
  const auto up = static_cast<std::uint16_t>(down + 1U);
  const double below = std::abs(static_cast<double>(value) - float_of_bf16(down));
  const double above = std::abs(static_cast<double>(value) - float_of_bf16(up));
  if (below != above) return below < above ? down : up;
  return (down & 1U) == 0 ? down : up;
}

std::vector<std::uint16_t> to_bf16(const Floats& values) {
  std::vector<std::uint16_t> r(values.size());
  std::transform(values.begin(), values.end(), r.begin(), bf16_of);
  return r;
}

Floats from_bf16(const std::vector<std::uint16_t>& values) {
  Floats r(values.size());
  std::transform(values.begin(), values.end(), r.begin(), float_of_bf16);
  return r;
}

void check_close(const char* what, const Floats& actual, const Doubles& expected, double absolute,
                 double relative) {
  REQUIRE(actual.size() == expected.size());
  double worst = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double error = std::abs(static_cast<double>(actual[i]) - expected[i]);
    const double share = error / (absolute + relative * std::abs(expected[i]));
    if (!(share <= worst)) {
      worst = share;
      at = i;
    }
    if (std::isnan(share)) break;
  }
  INFO(what, ": worst share of the tolerance ", worst, " at ", at);
  if (!actual.empty()) {
    CAPTURE(actual[at]);
    CAPTURE(expected[at]);
    CHECK(worst <= 1.0);
  }
}

void check_gradient(const char* what, Doubles& x, const Floats& gradient,
                    const std::function<double()>& loss, double tolerance, int samples) {
  REQUIRE(x.size() == gradient.size());
  const std::size_t stride = std::max<std::size_t>(1, x.size() / static_cast<std::size_t>(samples));
  constexpr double kStep = 1e-5;
  double worst = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = loss();
    x[i] = kept - kStep;
    const double below = loss();
    x[i] = kept;
    const double slope = (above - below) / (2 * kStep);
    const double error =
        std::abs(slope - static_cast<double>(gradient[i])) / (1.0 + std::abs(slope));
    if (!(error <= worst)) {
      worst = error;
      at = i;
    }
  }
  INFO(what, ": worst error ", worst, " at ", at);
  CHECK(worst <= tolerance);
}

Floats same_bits_everywhere(const std::function<Floats(CpuContext&)>& compute) {
  const ComputeThreadScope scope;
  Floats first;
  test::for_each_instruction_set([&](const char* name, bool) {
    for (const int threads : {1, 2, 3}) {
      CpuContextOptions options;
      options.threads = threads;
      CpuContext context(options);
      const Floats result = compute(context);
      if (first.empty()) first = result;
      INFO("instruction set ", name, ", threads ", threads);
      CHECK(same_bits(first, result));
    }
  });
  return first;
}

}  // namespace headrace::kernels::nn_tests
