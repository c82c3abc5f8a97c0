// Sixteen virtual lanes, whatever the width of the machine's vectors.
//
// What it is for: a reduction over 16 virtual lanes gives the same bits on AVX2 (two vectors of
// eight floats) and on AVX-512 (one of sixteen), since lane i always adds the same elements and the
// final fold is one fixed tree. What it does not do: hide tails; `load_n` and `store_n` serve them.
// Thread rule: values. See [Note: simd files]; everything is inside HWY_NAMESPACE.

#if defined(HEADRACE_KERNELS_CPU_LANES_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_KERNELS_CPU_LANES_INL_HPP
#undef HEADRACE_KERNELS_CPU_LANES_INL_HPP
#else
#define HEADRACE_KERNELS_CPU_LANES_INL_HPP
#endif

// clang-format off
#include "kernels/cpu/simd_targets.hpp"

#include <hwy/highway.h>
// clang-format on

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::int64_t kLanes = 16;

template <typename T>
struct Lanes {
  using Tag = hn::CappedTag<T, 16>;
  using Vector = hn::Vec<Tag>;
  static constexpr std::size_t kWidth = hn::MaxLanes(Tag());
  static constexpr std::size_t kParts = 16 / kWidth;
  Vector part[kParts];
};
using LanesF32 = Lanes<float>;
using LanesF64 = Lanes<double>;
using TagF32 = LanesF32::Tag;
using TagF64 = LanesF64::Tag;

// bf16 bits of f32, rounded to nearest even; NaN stays NaN (quiet).
HWY_INLINE hn::Vec<hn::Rebind<std::uint16_t, TagF32>> bf16_bits(hn::Vec<TagF32> x) {
  const TagF32 df;
  const hn::RebindToUnsigned<TagF32> du;
  const auto bits = hn::BitCast(du, x);
  const auto upper = hn::ShiftRight<16>(bits);
  const auto odd = hn::And(upper, hn::Set(du, 1U));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(bits, hn::Set(du, 0x7FFFU)), odd));
  const auto quiet = hn::Or(upper, hn::Set(du, 0x40U));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  const auto chosen = hn::IfThenElse(is_nan, quiet, rounded);
  (void)df;
  const hn::RebindToSigned<TagF32> di;
  return hn::DemoteTo(hn::Rebind<std::uint16_t, TagF32>(), hn::BitCast(di, chosen));
}
HWY_INLINE hn::Vec<TagF32> f32_of_bf16(hn::Vec<hn::Rebind<std::uint16_t, TagF32>> bits) {
  const hn::RebindToUnsigned<TagF32> du;
  return hn::BitCast(TagF32(), hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

template <typename T>
HWY_INLINE Lanes<T> lanes_set(T value) {
  Lanes<T> r;
  for (auto& p : r.part) p = hn::Set(typename Lanes<T>::Tag(), value);
  return r;
}
HWY_INLINE LanesF32 lanes_zero() { return lanes_set(0.0F); }

template <typename T>
HWY_INLINE Lanes<T> lanes_load(const T* HWY_RESTRICT from) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    r.part[i] = hn::LoadU(typename Lanes<T>::Tag(), from + i * Lanes<T>::kWidth);
  }
  return r;
}
// bf16 (as uint16_t) to f32: exact.
HWY_INLINE LanesF32 lanes_load(const std::uint16_t* HWY_RESTRICT from) {
  LanesF32 r;
  const hn::Rebind<std::uint16_t, TagF32> dh;
  for (std::size_t i = 0; i < LanesF32::kParts; ++i) {
    r.part[i] = f32_of_bf16(hn::LoadU(dh, from + i * LanesF32::kWidth));
  }
  return r;
}
template <typename T>
HWY_INLINE void lanes_store(const Lanes<T>& x, T* HWY_RESTRICT to) {
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    hn::StoreU(x.part[i], typename Lanes<T>::Tag(), to + i * Lanes<T>::kWidth);
  }
}
HWY_INLINE void lanes_store(const LanesF32& x, std::uint16_t* HWY_RESTRICT to) {
  const hn::Rebind<std::uint16_t, TagF32> dh;
  for (std::size_t i = 0; i < LanesF32::kParts; ++i) {
    hn::StoreU(bf16_bits(x.part[i]), dh, to + i * LanesF32::kWidth);
  }
}
// The first n (0..16) elements; the other lanes are zero.
template <typename T>
HWY_INLINE auto lanes_load_n(const T* HWY_RESTRICT from, std::int64_t n) {
  T padded[16] = {};
  for (std::int64_t i = 0; i < n; ++i) padded[i] = from[i];
  return lanes_load(padded);
}
template <typename T, typename U>
HWY_INLINE void lanes_store_n(const Lanes<T>& x, U* HWY_RESTRICT to, std::int64_t n) {
  U padded[16];
  lanes_store(x, padded);
  for (std::int64_t i = 0; i < n; ++i) to[i] = padded[i];
}

// r.part[i] = fn(x.part[i], …).
template <typename F, typename T, typename... More>
HWY_INLINE Lanes<T> lanes_map(F&& fn, const Lanes<T>& x, const More&... more) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) r.part[i] = fn(x.part[i], more.part[i]...);
  return r;
}
template <typename T>
HWY_INLINE Lanes<T> lanes_add(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) r.part[i] = hn::Add(a.part[i], b.part[i]);
  return r;
}
template <typename T>
HWY_INLINE Lanes<T> lanes_sub(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) r.part[i] = hn::Sub(a.part[i], b.part[i]);
  return r;
}
template <typename T>
HWY_INLINE Lanes<T> lanes_mul(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) r.part[i] = hn::Mul(a.part[i], b.part[i]);
  return r;
}
// a*b + c, rounded once.
template <typename T>
HWY_INLINE Lanes<T> lanes_mul_add(const Lanes<T>& a, const Lanes<T>& b, const Lanes<T>& c) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) {
    r.part[i] = hn::MulAdd(a.part[i], b.part[i], c.part[i]);
  }
  return r;
}
template <typename T>
HWY_INLINE Lanes<T> lanes_max(const Lanes<T>& a, const Lanes<T>& b) {
  Lanes<T> r;
  for (std::size_t i = 0; i < Lanes<T>::kParts; ++i) r.part[i] = hn::Max(a.part[i], b.part[i]);
  return r;
}

// The fixed fold: lane i += lane i+8, then +4, +2, +1.
template <typename T>
HWY_INLINE T lanes_fold_sum(const Lanes<T>& x) {
  T v[16];
  lanes_store(x, v);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] += v[i + width];
  }
  return v[0];
}
HWY_INLINE float lanes_fold_max(const LanesF32& x) {
  float v[16];
  lanes_store(x, v);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) v[i] = v[i] > v[i + width] ? v[i] : v[i + width];
  }
  return v[0];
}
// f32 to f64: exact.
HWY_INLINE LanesF64 lanes_promote(const float* HWY_RESTRICT from) {
  LanesF64 r;
  const hn::Rebind<float, TagF64> dh;
  for (std::size_t i = 0; i < LanesF64::kParts; ++i) {
    r.part[i] = hn::PromoteTo(TagF64(), hn::LoadU(dh, from + i * LanesF64::kWidth));
  }
  return r;
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
