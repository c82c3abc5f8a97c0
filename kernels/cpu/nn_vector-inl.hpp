// Row arithmetic on sixteen virtual lanes, for the neural-network operators.
//
// What it is for: operators, tails and the stored types on top of lanes-inl.hpp; an F16 is one
// AVX-512 vector or two AVX2 vectors, so that reductions have one order and elementwise results one
// rounding on every instruction set. What it does not do: know of layouts. Thread rule: values and
// pure functions. See [Note: simd files]. bf16 is stored as std::uint16_t.
#if defined(HEADRACE_KERNELS_CPU_NN_VECTOR_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_KERNELS_CPU_NN_VECTOR_INL_HPP
#undef HEADRACE_KERNELS_CPU_NN_VECTOR_INL_HPP
#else
#define HEADRACE_KERNELS_CPU_NN_VECTOR_INL_HPP
#endif

// clang-format off
#include "kernels/cpu/simd_targets.hpp"
#include "kernels/cpu/lanes-inl.hpp"
#include "kernels/cpu/math-inl.hpp"
#include "kernels/dtype.hpp"
// clang-format on

#include <cstdint>
#include <cstring>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {

using F16 = LanesF32;
using FloatTag = TagF32;
inline constexpr int kVirtualLanes = 16;
inline constexpr std::int64_t kPartLanes = hn::MaxLanes(FloatTag());
inline constexpr int kParts = static_cast<int>(kVirtualLanes / kPartLanes);

// How many of the 16 lanes of a load or store are inside the row: all, or the first `count`.
struct AllLanes {};
struct FirstLanes {
  int count;  // 1..15
};

struct M16 {
  hn::Mask<FloatTag> part[kParts];
};

template <typename F, typename... V>
HWY_INLINE F16 each(F f, const V&... values) {
  F16 r;
  HWY_UNROLL(4)
  for (int p = 0; p < kParts; ++p) r.part[p] = f(values.part[p]...);
  return r;
}

HWY_INLINE F16 set16(float value) {
  F16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = hn::Set(FloatTag(), value);
  return r;
}
HWY_INLINE F16 zero16() { return set16(0.0F); }

HWY_INLINE F16 operator+(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}
HWY_INLINE F16 operator-(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Sub(x, y); }, a, b);
}
HWY_INLINE F16 operator*(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Mul(x, y); }, a, b);
}
HWY_INLINE F16 operator/(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Div(x, y); }, a, b);
}
// a * b + c, rounded once.
HWY_INLINE F16 mul_add(const F16& a, const F16& b, const F16& c) {
  return each([](auto x, auto y, auto z) HWY_ATTR { return hn::MulAdd(x, y, z); }, a, b, c);
}
// c - a * b, rounded once.
HWY_INLINE F16 neg_mul_add(const F16& a, const F16& b, const F16& c) {
  return each([](auto x, auto y, auto z) HWY_ATTR { return hn::NegMulAdd(x, y, z); }, a, b, c);
}
HWY_INLINE F16 max16(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Max(x, y); }, a, b);
}
HWY_INLINE F16 min16(const F16& a, const F16& b) {
  return each([](auto x, auto y) HWY_ATTR { return hn::Min(x, y); }, a, b);
}
HWY_INLINE F16 abs16(const F16& a) {
  return each([](auto x) HWY_ATTR { return hn::Abs(x); }, a);
}
HWY_INLINE F16 copy_sign16(const F16& magnitude, const F16& sign) {
  return each([](auto x, auto y) HWY_ATTR { return hn::CopySign(x, y); }, magnitude, sign);
}
// e^x, natural logarithm and erf of math-inl.hpp: within about 1 ulp; a NaN stays a NaN.
HWY_INLINE F16 exp16(const F16& a) {
  return each([](auto x) HWY_ATTR { return math_exp(x); }, a);
}
// e^x for x <= 88, exactly 0 below -87: all that a softmax or a sigmoid needs, in two thirds of the
// instructions. A NaN stays a NaN.
HWY_INLINE F16 exp16_bounded(const F16& a) {
  return each(
      [](auto x) HWY_ATTR {
        const FloatTag d;
        const hn::RebindToSigned<FloatTag> di;
        constexpr float kPolynomial[] = {0.5F,           0.166666672F,  0.0416662693F,
                                         0.00833326392F, 0.0013946062F, 0.000199184055F};
        const auto n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504F)));
        auto r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), x);
        r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
        auto y = hn::MulAdd(hn::Mul(r, r), horner(r, kPolynomial), r);
        y = hn::Mul(hn::Add(y, hn::Set(d, 1.0F)), power_of_two(hn::ConvertTo(di, n)));
        return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0F)), y);  // a NaN is not below
      },
      a);
}
HWY_INLINE F16 log16(const F16& a) {
  return each([](auto x) HWY_ATTR { return math_log(x); }, a);
}
HWY_INLINE F16 erf16(const F16& a) {
  return each([](auto x) HWY_ATTR { return math_erf(x); }, a);
}

HWY_INLINE M16 first_lanes(int count) {
  M16 r;
  for (int p = 0; p < kParts; ++p) {
    const std::int64_t rest = count - p * kPartLanes;
    const std::int64_t inside = rest < 0 ? 0 : (rest > kPartLanes ? kPartLanes : rest);
    r.part[p] = hn::FirstN(FloatTag(), static_cast<std::size_t>(inside));
  }
  return r;
}
HWY_INLINE F16 choose16(const M16& mask, const F16& yes, const F16& no) {
  F16 r;
  for (int p = 0; p < kParts; ++p) {
    r.part[p] = hn::IfThenElse(mask.part[p], yes.part[p], no.part[p]);
  }
  return r;
}
HWY_INLINE M16 less16(const F16& a, const F16& b) {
  M16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = hn::Lt(a.part[p], b.part[p]);
  return r;
}
// Zero outside of the lanes.
HWY_INLINE F16 keep(const F16& v, AllLanes) { return v; }
HWY_INLINE F16 keep(const F16& v, FirstLanes lanes) {
  return choose16(first_lanes(lanes.count), v, zero16());
}
HWY_INLINE F16 keep_or(const F16& v, AllLanes, float) { return v; }
HWY_INLINE F16 keep_or(const F16& v, FirstLanes lanes, float other) {
  return choose16(first_lanes(lanes.count), v, set16(other));
}

// Loads are zero outside of the lanes; stores leave what is outside alone.
HWY_INLINE F16 load16(const float* from, AllLanes = {}) {
  F16 r;
  for (int p = 0; p < kParts; ++p) r.part[p] = hn::LoadU(FloatTag(), from + p * kPartLanes);
  return r;
}
HWY_INLINE F16 load16(const float* from, FirstLanes lanes) {
  const M16 mask = first_lanes(lanes.count);
  F16 r;
  for (int p = 0; p < kParts; ++p) {
    r.part[p] = hn::MaskedLoad(mask.part[p], FloatTag(), from + p * kPartLanes);
  }
  return r;
}
HWY_INLINE void store16(const F16& v, float* to, AllLanes = {}) {
  for (int p = 0; p < kParts; ++p) hn::StoreU(v.part[p], FloatTag(), to + p * kPartLanes);
}
HWY_INLINE void store16(const F16& v, float* to, FirstLanes lanes) {
  const M16 mask = first_lanes(lanes.count);
  for (int p = 0; p < kParts; ++p) {
    hn::BlendedStore(v.part[p], mask.part[p], FloatTag(), to + p * kPartLanes);
  }
}

HWY_INLINE F16 load16(const std::uint16_t* from, AllLanes = {}) { return lanes_load(from); }
HWY_INLINE F16 load16(const std::uint16_t* from, FirstLanes lanes) {
  return lanes_load_n(from, lanes.count);
}
// Rounds to nearest even; a NaN stays a NaN.
HWY_INLINE void store16(const F16& v, std::uint16_t* to, AllLanes = {}) { lanes_store(v, to); }
HWY_INLINE void store16(const F16& v, std::uint16_t* to, FirstLanes lanes) {
  lanes_store_n(v, to, lanes.count);
}

// The one fold of 16 lanes, as lanes_fold_sum: i with i+8, then i+4, i+2, i+1.
template <typename F>
HWY_INLINE float fold16(const F16& v, F f) {
  alignas(64) float lane[kVirtualLanes];
  store16(v, lane);
  const hn::FixedTag<float, 4> d;
  const auto a = f(hn::Load(d, lane), hn::Load(d, lane + 8));
  const auto b = f(hn::Load(d, lane + 4), hn::Load(d, lane + 12));
  const auto quad = f(a, b);
  const auto pair = f(quad, hn::Shuffle1032(quad));
  return hn::GetLane(f(pair, hn::Shuffle2301(pair)));
}
HWY_INLINE float sum_lanes(const F16& v) {
  return fold16(v, [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
HWY_INLINE float max_lanes(const F16& v) {
  return fold16(v, [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); });
}

// Calls f(column, lanes) for 16 columns at a time.
template <typename F>
HWY_INLINE void for_columns(std::int64_t begin, std::int64_t end, F&& f) {
  std::int64_t column = begin;
  for (; column + kVirtualLanes <= end; column += kVirtualLanes) f(column, AllLanes());
  if (column < end) f(column, FirstLanes{static_cast<int>(end - column)});
}

// Calls f with the pointer's stored type.
template <typename F>
HWY_INLINE void with_input(ConstRef ref, F&& f) {
  if (ref.type == DType::kBf16) {
    f(static_cast<const std::uint16_t*>(ref.data));
  } else {
    f(static_cast<const float*>(ref.data));
  }
}
template <typename F>
HWY_INLINE void with_output(Ref ref, F&& f) {
  if (ref.type == DType::kBf16) {
    f(static_cast<std::uint16_t*>(ref.data));
  } else {
    f(static_cast<float*>(ref.data));
  }
}

}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
