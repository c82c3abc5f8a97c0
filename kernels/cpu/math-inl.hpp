// exp, log, sine and cosine of turns, tanh and erf for vectors of f32, without libm.
//
// What it is for: functions whose results become state must give the same bits on every
// instruction set and with every C library. Minimax polynomials (Remez, relative error below 5e-9)
// in Horner form with written fused multiply-adds. What it does not do: raise floating-point
// exceptions on purpose. Thread rule: pure functions. See [Note: simd files].
//
// Largest errors, as the test sweeps them: exp 1.0 ulp, log 0.8, tanh 1.4, erf 1.1; sine and cosine
// 6e-8 absolute. NaN in gives NaN out.

#if defined(HEADRACE_KERNELS_CPU_MATH_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_KERNELS_CPU_MATH_INL_HPP
#undef HEADRACE_KERNELS_CPU_MATH_INL_HPP
#else
#define HEADRACE_KERNELS_CPU_MATH_INL_HPP
#endif

// clang-format off
#include "kernels/cpu/simd_targets.hpp"
#include "kernels/cpu/lanes-inl.hpp"
// clang-format on

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

using VectorF32 = hn::Vec<TagF32>;

// c[0] + x*(c[1] + x*(c[2] + …)).
template <std::size_t N>
HWY_INLINE VectorF32 horner(VectorF32 x, const float (&c)[N]) {
  const TagF32 d;
  VectorF32 y = hn::Set(d, c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

// 2^n as a float for integer n in -126..127.
HWY_INLINE VectorF32 power_of_two(hn::Vec<hn::RebindToSigned<TagF32>> n) {
  const TagF32 d;
  const hn::RebindToSigned<TagF32> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

// e^x; 0 below -104, infinity above 88.73.
HWY_INLINE VectorF32 math_exp(VectorF32 x) {
  const TagF32 d;
  const hn::RebindToSigned<TagF32> di;
  constexpr float kPolynomial[] = {0.5F,           0.166666672F,  0.0416662693F,
                                   0.00833326392F, 0.0013946062F, 0.000199184055F};
  const VectorF32 low = hn::Set(d, -104.0F);
  const VectorF32 high = hn::Set(d, 89.0F);
  const VectorF32 clamped = hn::Min(hn::Max(x, low), high);
  const VectorF32 n = hn::Round(hn::Mul(clamped, hn::Set(d, 1.44269504F)));
  // ln 2 in two parts; n times the first (12 bits) is exact.
  VectorF32 r = hn::NegMulAdd(n, hn::Set(d, 0.693359375F), clamped);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4F), r);
  VectorF32 y = hn::MulAdd(hn::Mul(r, r), horner(r, kPolynomial), r);
  y = hn::Add(y, hn::Set(d, 1.0F));
  // Two factors, so that denormal results are rounded once and 2^128 is never formed.
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  y = hn::Mul(hn::Mul(y, power_of_two(half)), power_of_two(hn::Sub(whole, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Natural logarithm; -infinity at 0, NaN below.
HWY_INLINE VectorF32 math_log(VectorF32 x) {
  const TagF32 d;
  const hn::RebindToSigned<TagF32> di;
  constexpr float kPolynomial[] = {0.333333105F, -0.249999866F, 0.200022265F,
                                   -0.16669251F, 0.142186612F,  -0.123843506F,
                                   0.118729562F, -0.117897905F, 0.0691539347F};
  const auto denormal = hn::Lt(x, hn::Set(d, std::numeric_limits<float>::min()));
  const VectorF32 scaled = hn::IfThenElse(denormal, hn::Mul(x, hn::Set(d, 8388608.0F)), x);
  const auto bits = hn::BitCast(di, scaled);
  // Exponent such that the mantissa falls in [sqrt(1/2), sqrt(2)).
  const auto n = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3F3504F3)));
  const VectorF32 m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(n)));
  const VectorF32 f = hn::Sub(m, hn::Set(d, 1.0F));
  VectorF32 exponent = hn::ConvertTo(d, n);
  exponent = hn::IfThenElse(denormal, hn::Sub(exponent, hn::Set(d, 23.0F)), exponent);
  const VectorF32 square = hn::Mul(f, f);
  VectorF32 y = hn::Mul(hn::Mul(square, f), horner(f, kPolynomial));
  y = hn::MulAdd(exponent, hn::Set(d, -2.12194440e-4F), y);
  y = hn::MulAdd(square, hn::Set(d, -0.5F), y);
  y = hn::MulAdd(exponent, hn::Set(d, 0.693359375F), hn::Add(f, y));
  const VectorF32 infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  const VectorF32 nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y, nan);
}

struct SineCosine {
  VectorF32 sine;
  VectorF32 cosine;
};
// sin and cos of 2*pi*turns, |turns| < 2^20; the reduction is exact.
HWY_INLINE SineCosine math_sine_cosine_of_turns(VectorF32 turns) {
  const TagF32 d;
  const hn::RebindToSigned<TagF32> di;
  constexpr float kSine[] = {-41.3417015F, 81.6052094F, -76.6983795F, 41.4875755F};
  constexpr float kCosine[] = {-19.7392082F, 64.9393234F, -85.4437408F, 59.2459602F};
  const VectorF32 quarters = hn::Round(hn::Mul(turns, hn::Set(d, 4.0F)));
  const VectorF32 r = hn::NegMulAdd(quarters, hn::Set(d, 0.25F), turns);
  const VectorF32 z = hn::Mul(r, r);
  // 2*pi in two parts keeps the error of the leading term below half a unit.
  VectorF32 s = hn::MulAdd(hn::Mul(z, r), horner(z, kSine), hn::Mul(r, hn::Set(d, -1.7484555e-7F)));
  s = hn::MulAdd(r, hn::Set(d, 6.28318548F), s);
  const VectorF32 c = hn::MulAdd(z, horner(z, kCosine), hn::Set(d, 1.0F));
  const auto quadrant = hn::ConvertTo(di, quarters);
  const auto odd = hn::Eq(hn::And(quadrant, hn::Set(di, 1)), hn::Set(di, 1));
  const auto swap = hn::RebindMask(d, odd);
  const VectorF32 sine = hn::IfThenElse(swap, c, s);
  const VectorF32 cosine = hn::IfThenElse(swap, s, c);
  const auto sine_sign = hn::ShiftLeft<30>(hn::And(quadrant, hn::Set(di, 2)));
  const auto next = hn::Add(quadrant, hn::Set(di, 1));
  const auto cosine_sign = hn::ShiftLeft<30>(hn::And(next, hn::Set(di, 2)));
  return {hn::Xor(sine, hn::BitCast(d, sine_sign)), hn::Xor(cosine, hn::BitCast(d, cosine_sign))};
}

HWY_INLINE VectorF32 math_tanh(VectorF32 x) {
  const TagF32 d;
  constexpr float kPolynomial[] = {-0.333333313F, 0.133332103F,    -0.0539472029F,
                                   0.0217029694F, -0.00818267744F, 0.00214753998F};
  const VectorF32 t = hn::Abs(x);
  const VectorF32 z = hn::Mul(x, x);
  const VectorF32 near_zero = hn::MulAdd(hn::Mul(z, x), horner(z, kPolynomial), x);
  const VectorF32 one = hn::Set(d, 1.0F);
  const VectorF32 e = math_exp(hn::Add(t, t));
  const VectorF32 far = hn::Sub(one, hn::Div(hn::Set(d, 2.0F), hn::Add(e, one)));
  return hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.625F)), near_zero, hn::CopySign(far, x));
}

HWY_INLINE VectorF32 math_erf(VectorF32 x) {
  const TagF32 d;
  constexpr float kNearZero[] = {0.128379166F,   -0.376126349F,    0.112837017F,   -0.0268597025F,
                                 0.00520171644F, -0.000814980944F, 8.39780987e-05F};
  // log(erfc(t)) on [0.921875, 4].
  constexpr float kFar[] = {0.000176359841F, -1.12952316F,    -0.633329988F,   -0.108299084F,
                            0.0251319371F,   -0.00417589722F, 0.000435477035F, -2.1184178e-05F};
  const VectorF32 t = hn::Min(hn::Abs(x), hn::Set(d, 4.0F));
  const VectorF32 near_zero = hn::MulAdd(x, horner(hn::Mul(t, t), kNearZero), x);
  const VectorF32 far = hn::Sub(hn::Set(d, 1.0F), math_exp(horner(t, kFar)));
  const VectorF32 y =
      hn::IfThenElse(hn::Lt(t, hn::Set(d, 0.921875F)), near_zero, hn::CopySign(far, x));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
