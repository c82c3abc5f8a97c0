// Normal deviates from Philox by Box and Muller.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fill_normal.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/math-inl.hpp"
// clang-format on

#include "kernels/cpu/basic_operators.hpp"

#include <algorithm>
#include <array>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// Words (w0, w1, w2, w3) of Philox block i/4 give elements i..i+3: pairs (w0, w1) and (w2, w3),
// each pair r*cos, r*sin with r = sqrt(-2 ln u), u = (w0/2^8 + 1) / 2^24 in (0, 1], angle (w1/2^8)
// / 2^24 turns: every step is exact in f32 before the logarithm.
void normal_range(const FillNormalArgs& args, std::int64_t begin, std::int64_t end) {
  const TagF32 d;
  for (std::int64_t i = begin; i < end; i += 2 * kLanes) {
    float radius_seed[kLanes];
    float turns[kLanes];
    for (std::int64_t pair = 0; pair < kLanes; pair += 2) {
      const auto block = static_cast<std::uint64_t>((i + 2 * pair) / 4);
      const auto words = philox4x32(args.key, block, args.sample, args.site);
      for (std::int64_t half = 0; half < 2; ++half) {
        const auto word = static_cast<std::size_t>(2 * half);
        radius_seed[pair + half] = (static_cast<float>(words[word] >> 8U) + 1.0F) * 0x1p-24F;
        turns[pair + half] = static_cast<float>(words[word + 1] >> 8U) * 0x1p-24F;
      }
    }
    LanesF32 even = lanes_load(radius_seed);
    LanesF32 odd = lanes_load(turns);
    for (std::size_t p = 0; p < LanesF32::kParts; ++p) {
      const auto r = hn::Sqrt(hn::Mul(hn::Set(d, -2.0F), math_log(even.part[p])));
      const SineCosine angle = math_sine_cosine_of_turns(odd.part[p]);
      const auto deviation = hn::Set(d, args.deviation);
      const auto mean = hn::Set(d, args.mean);
      even.part[p] = hn::MulAdd(deviation, hn::Mul(r, angle.cosine), mean);
      odd.part[p] = hn::MulAdd(deviation, hn::Mul(r, angle.sine), mean);
    }
    lanes_store(even, radius_seed);
    lanes_store(odd, turns);
    const std::int64_t n = std::min(2 * kLanes, end - i);
    for (std::int64_t j = 0; j < n; ++j) {
      args.x[i + j] = j % 2 == 0 ? radius_seed[j / 2] : turns[j / 2];
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(normal_range);

void fill_normal(CpuContext& context, const FillNormalArgs& args) {
  const auto range = HWY_DYNAMIC_DISPATCH(normal_range);
  context.parallel_ranges(
      args.count, kElementBlock,
      [&](std::int64_t begin, std::int64_t end, int) { range(args, begin, end); });
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
