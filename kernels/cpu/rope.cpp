// Rotary position embedding: the table of angles and the rotation.
#include "kernels/cpu/nn_operators.hpp"
#include "kernels/cpu/nn_scalar_math-inl.hpp"

#include <cstdint>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rope.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kRows = 32;

// (a, b) -> (a cos - b sin, b cos + a sin), or with the angle negated.
template <bool Inverse>
void rotate_head(float* x, const float* cosine, const float* sine, std::int64_t half) {
  for_columns(0, half, [&](std::int64_t i, auto lanes) HWY_ATTR {
    const F16 a = load16(x + i, lanes);
    const F16 b = load16(x + half + i, lanes);
    const F16 c = load16(cosine + i, lanes);
    const F16 s = load16(sine + i, lanes);
    if constexpr (Inverse) {
      store16(mul_add(b, s, a * c), x + i, lanes);
      store16(neg_mul_add(a, s, b * c), x + half + i, lanes);
    } else {
      store16(neg_mul_add(b, s, a * c), x + i, lanes);
      store16(mul_add(a, s, b * c), x + half + i, lanes);
    }
  });
}

void rope_target(CpuContext& context, const RopeArgs& args) {
  const std::int64_t half = args.head_width / 2;
  context.parallel_ranges(
      args.batch * args.positions, kRows, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
        for (std::int64_t row = begin; row < end; ++row) {
          const std::int64_t angle = row % args.positions * half;
          for (std::int64_t head = 0; head < args.heads; ++head) {
            float* x = args.x + row * args.stride + head * args.head_width;
            if (args.inverse) {
              rotate_head<true>(x, args.cosine + angle, args.sine + angle, half);
            } else {
              rotate_head<false>(x, args.cosine + angle, args.sine + angle, half);
            }
          }
        }
      });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(rope_target);

void rope(CpuContext& context, const RopeArgs& args) {
  HWY_DYNAMIC_DISPATCH(rope_target)(context, args);
}

// Set-up work, in double precision without libm: each angle is rounded once, to fp32.
void rope_table(CpuContext& context, const RopeTableArgs& args) {
  const std::int64_t half = args.head_width / 2;
  const double log_base = log_of(args.base);
  context.parallel_ranges(args.positions, 64, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(args.head_width);
      const double frequency = exp_of(exponent * log_base);
      for (std::int64_t t = begin; t < end; ++t) {
        const SineCosineF64 value = sine_cosine_of(static_cast<double>(t) * frequency);
        args.sine[t * half + i] = static_cast<float>(value.sine);
        args.cosine[t * half + i] = static_cast<float>(value.cosine);
      }
    }
  });
}
}  // namespace headrace::kernels
#endif
