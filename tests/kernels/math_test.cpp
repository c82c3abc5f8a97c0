// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/math_test.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/math-inl.hpp"
// clang-format on

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// out[i] = function(in[i]) for 16 values.
void apply_exp(const float* in, float* out) {
  lanes_store(lanes_map([](VectorF32 x) { return math_exp(x); }, lanes_load(in)), out);
}
void apply_log(const float* in, float* out) {
  lanes_store(lanes_map([](VectorF32 x) { return math_log(x); }, lanes_load(in)), out);
}
void apply_tanh(const float* in, float* out) {
  lanes_store(lanes_map([](VectorF32 x) { return math_tanh(x); }, lanes_load(in)), out);
}
void apply_erf(const float* in, float* out) {
  lanes_store(lanes_map([](VectorF32 x) { return math_erf(x); }, lanes_load(in)), out);
}
void apply_sine(const float* in, float* out) {
  const auto sine = [](VectorF32 x) { return math_sine_cosine_of_turns(x).sine; };
  lanes_store(lanes_map(sine, lanes_load(in)), out);
}
void apply_cosine(const float* in, float* out) {
  const auto cosine = [](VectorF32 x) { return math_sine_cosine_of_turns(x).cosine; };
  lanes_store(lanes_map(cosine, lanes_load(in)), out);
}
void fold_sum(const float* in, float* out) { *out = lanes_fold_sum(lanes_load(in)); }
void fold_max(const float* in, float* out) { *out = lanes_fold_max(lanes_load(in)); }

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

#include "tests/kernels/instruction_sets.hpp"

#include <doctest/doctest.h>

namespace headrace::kernels {
namespace {

HWY_EXPORT(apply_exp);
HWY_EXPORT(apply_log);
HWY_EXPORT(apply_tanh);
HWY_EXPORT(apply_erf);
HWY_EXPORT(apply_sine);
HWY_EXPORT(apply_cosine);
HWY_EXPORT(fold_sum);
HWY_EXPORT(fold_max);

using Apply = void (*)(const float*, float*);

struct Sweep {
  double worst_ulp = 0;
  double worst_absolute = 0;
  std::uint64_t digest = 14695981039346656037ULL;  // FNV-1a over all result bits
};

// Every 1,553rd float bit pattern inside [low, high].
Sweep sweep(Apply apply, double (*exact)(double), float low, float high) {
  Sweep result;
  std::array<float, 16> in{};
  std::array<float, 16> out{};
  std::size_t filled = 0;
  for (std::uint64_t bits = 0; bits < 0x100000000ULL; bits += 1553) {
    const auto word = static_cast<std::uint32_t>(bits);
    std::memcpy(&in[filled], &word, sizeof(word));
    if (!(in[filled] >= low && in[filled] <= high)) continue;
    if (++filled < in.size()) continue;
    filled = 0;
    apply(in.data(), out.data());
    for (std::size_t i = 0; i < in.size(); ++i) {
      const double reference = exact(static_cast<double>(in[i]));
      const float rounded = std::abs(static_cast<float>(reference));
      const float above = std::nextafter(rounded, std::numeric_limits<float>::infinity());
      const double error = std::abs(static_cast<double>(out[i]) - reference);
      result.worst_ulp = std::max(result.worst_ulp, error / (above - rounded));
      result.worst_absolute = std::max(result.worst_absolute, error);
      std::uint32_t out_bits = 0;
      std::memcpy(&out_bits, &out[i], sizeof(out_bits));
      result.digest = (result.digest ^ out_bits) * 1099511628211ULL;
    }
  }
  return result;
}

double sine_of_turns(double turns) { return std::sin(2 * std::acos(-1.0) * turns); }
double cosine_of_turns(double turns) { return std::cos(2 * std::acos(-1.0) * turns); }

std::array<float, 16> apply_to(Apply apply, const std::array<float, 16>& in) {
  std::array<float, 16> out{};
  apply(in.data(), out.data());
  return out;
}

}  // namespace

TEST_CASE("math: errors stay below the stated bounds and bits agree on every instruction set") {
  std::array<std::uint64_t, 6> first{};
  test::for_each_instruction_set([&](const char* name, bool is_first) {
    CAPTURE(name);
    const std::array<Sweep, 6> sweeps = {
        sweep(HWY_DYNAMIC_DISPATCH(apply_exp), std::exp, -103.0F, 88.7F),
        sweep(HWY_DYNAMIC_DISPATCH(apply_log), std::log, 1e-45F, 3e38F),
        sweep(HWY_DYNAMIC_DISPATCH(apply_tanh), std::tanh, -20.0F, 20.0F),
        sweep(HWY_DYNAMIC_DISPATCH(apply_erf), std::erf, -6.0F, 6.0F),
        sweep(HWY_DYNAMIC_DISPATCH(apply_sine), sine_of_turns, -2.0F, 2.0F),
        sweep(HWY_DYNAMIC_DISPATCH(apply_cosine), cosine_of_turns, -2.0F, 2.0F)};
    CHECK(sweeps[0].worst_ulp < 1.0);
    CHECK(sweeps[1].worst_ulp < 0.8);
    CHECK(sweeps[2].worst_ulp < 1.4);
    CHECK(sweeps[3].worst_ulp < 1.1);
    CHECK(sweeps[4].worst_absolute < 6e-8);
    CHECK(sweeps[5].worst_absolute < 6e-8);
    for (std::size_t i = 0; i < sweeps.size(); ++i) {
      if (is_first) first[i] = sweeps[i].digest;
      CHECK(sweeps[i].digest == first[i]);
    }
  });
}

TEST_CASE("math: special values") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::array<float, 16> in = {0, infinity, -infinity, nan, 100, -200, -1};
  test::for_each_instruction_set([&](const char* name, bool) {
    CAPTURE(name);
    const auto exp = apply_to(HWY_DYNAMIC_DISPATCH(apply_exp), in);
    CHECK(exp[0] == 1.0F);
    CHECK(exp[1] == infinity);
    CHECK(exp[2] == 0.0F);
    CHECK(std::isnan(exp[3]));
    CHECK(exp[4] == infinity);
    CHECK(exp[5] == 0.0F);
    const auto log = apply_to(HWY_DYNAMIC_DISPATCH(apply_log), in);
    CHECK(log[0] == -infinity);
    CHECK(log[1] == infinity);
    CHECK(std::isnan(log[2]));
    CHECK(std::isnan(log[3]));
    CHECK(std::isnan(log[6]));
    for (const Apply apply : {HWY_DYNAMIC_DISPATCH(apply_tanh), HWY_DYNAMIC_DISPATCH(apply_erf)}) {
      const auto out = apply_to(apply, in);
      CHECK(out[0] == 0.0F);
      CHECK(out[1] == 1.0F);
      CHECK(out[2] == -1.0F);
      CHECK(std::isnan(out[3]));
      CHECK(out[4] == 1.0F);
    }
  });
}

TEST_CASE("lanes: sums fold as a fixed tree and maxima find every lane") {
  std::array<float, 16> in{};
  for (std::size_t i = 0; i < 16; ++i)
    in[i] = std::ldexp(1.0F + static_cast<float>(i), 3 * static_cast<int>(i % 9));
  std::array<float, 16> tree = in;
  for (std::size_t width = 8; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) tree[i] += tree[i + width];
  }
  test::for_each_instruction_set([&](const char* name, bool) {
    CAPTURE(name);
    float sum = 0;
    HWY_DYNAMIC_DISPATCH(fold_sum)(in.data(), &sum);
    CHECK(sum == tree[0]);
    for (std::size_t lane = 0; lane < 16; ++lane) {
      std::array<float, 16> negative;
      negative.fill(-5);
      negative[lane] = -4;
      float max = 0;
      HWY_DYNAMIC_DISPATCH(fold_max)(negative.data(), &max);
      CHECK(max == -4.0F);
    }
  });
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
