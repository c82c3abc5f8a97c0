// exp, log, sine and cosine in double precision, without libm.
//
// What it is for: tables that become part of a result must be the same with every C library. Series
// after an exact range reduction; only additions, multiplications and divisions, never contracted.
// What it does not do: speed (vectors of fp32 are in math-inl.hpp); infinities and NaN. Errors are
// a few units in the last place. Thread rule: pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace headrace::kernels {

inline std::int64_t nearest_integer(double x) {
  return static_cast<std::int64_t>(x < 0 ? x - 0.5 : x + 0.5);
}

// e^x for |x| < 700.
inline double exp_of(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;  // 33 bits: products below are exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const std::int64_t n = nearest_integer(x * 1.44269504088896338700);
  const auto whole = static_cast<double>(n);
  const double r = (x - whole * kLn2High) - whole * kLn2Low;
  double sum = 1.0;
  for (int k = 17; k > 0; --k) sum = 1.0 + sum * r / k;
  return sum * std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52U);
}

// Natural logarithm of a normal positive x: 2 atanh((m-1)/(m+1)) with m in [sqrt(1/2), sqrt(2)).
inline double log_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double f = (m - 1.0) / (m + 1.0);
  const double square = f * f;
  double sum = 0.0;
  for (int k = 23; k > 0; k -= 2) sum = sum * square + 1.0 / k;
  return static_cast<double>(exponent) * 0.69314718055994530942 + 2.0 * f * sum;
}

struct SineCosineF64 {
  double sine;
  double cosine;
};
// For |x| < 10^6.
inline SineCosineF64 sine_cosine_of(double x) {
  constexpr double kHalfPiHigh = 1.57079632673412561417e+00;  // 33 bits: products below are exact
  constexpr double kHalfPiLow = 6.07710050650619224932e-11;
  const std::int64_t quarter = nearest_integer(x * 6.36619772367581382433e-01);
  const auto whole = static_cast<double>(quarter);
  const double r = (x - whole * kHalfPiHigh) - whole * kHalfPiLow;
  const double square = r * r;
  double s = 1.0;
  double c = 1.0;
  for (int k = 18; k > 0; k -= 2) {
    s = 1.0 - s * square / (k * (k + 1));
    c = 1.0 - c * square / (k * (k - 1));
  }
  s *= r;
  switch (quarter & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

}  // namespace headrace::kernels
