// Dropout masks: 16 Philox words at a time, equal to kernels/philox.hpp bit for bit.
//
// What it is for: element e = t * width + c of a sample uses word e % 4 of the Philox block with
// counter (e / 4, sample, site); it is kept where that word is at least probability * 2^32. So the
// mask is a function of the element alone, and forward and backward make the same one. What it does
// not do: store masks. Thread rule: pure functions, but for the call number of a broken rule.
#if defined(HEADRACE_KERNELS_CPU_NN_DROPOUT_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADRACE_KERNELS_CPU_NN_DROPOUT_INL_HPP
#undef HEADRACE_KERNELS_CPU_NN_DROPOUT_INL_HPP
#else
#define HEADRACE_KERNELS_CPU_NN_DROPOUT_INL_HPP
#endif

#include "kernels/cpu/nn_vector-inl.hpp"
#include "kernels/operators.hpp"

namespace headrace::kernels {
// Counts calls; what BrokenRule::kDropoutOrder uses in place of the sample (dropout.cpp).
std::uint32_t dropout_call_number();
}  // namespace headrace::kernels

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {

using PairTag = hn::CappedTag<std::uint64_t, 8>;
using PhiloxWords = hn::Vec<PairTag>;  // a word in the lower half of each lane; the rest is noise

inline constexpr std::int64_t kDropoutChunk = 1024;

HWY_INLINE PhiloxWords philox_product(PhiloxWords word, std::uint32_t factor) {
  const hn::Repartition<std::uint32_t, PairTag> d32;
  return hn::MulEven(hn::BitCast(d32, word), hn::Set(d32, factor));
}

// to[0..4*blocks) = the words of `blocks` consecutive Philox blocks; writes up to 28 words more.
HWY_INLINE void philox_words(const DropoutSite& site, std::uint32_t sample, std::uint64_t first,
                             std::int64_t blocks, std::uint32_t* to) {
  const PairTag d;
  const PhiloxWords low_half = hn::Set(d, 0xFFFFFFFFU);
  const auto lanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  for (std::int64_t block = 0; block < blocks; block += lanes) {
    const PhiloxWords index = hn::Add(hn::Iota(d, std::uint64_t{0}),
                                      hn::Set(d, first + static_cast<std::uint64_t>(block)));
    PhiloxWords c0 = index;
    PhiloxWords c1 = hn::ShiftRight<32>(index);
    PhiloxWords c2 = hn::Set(d, sample);
    PhiloxWords c3 = hn::Set(d, site.site);
    std::uint32_t k0 = site.key.k0;
    std::uint32_t k1 = site.key.k1;
    for (int round = 0; round < 10; ++round) {
      const PhiloxWords p0 = philox_product(c0, 0xD2511F53U);
      const PhiloxWords p1 = philox_product(c2, 0xCD9E8D57U);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c3 = p0;
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    const PhiloxWords front = hn::Or(hn::And(c0, low_half), hn::ShiftLeft<32>(c1));
    const PhiloxWords back = hn::Or(hn::And(c2, low_half), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(front, back, d, reinterpret_cast<std::uint64_t*>(to + 4 * block));
  }
}

// What one call of an operator does to its elements.
struct DropoutPlan {
  DropoutSite site;
  bool active = false;
  bool by_call = false;  // BrokenRule::kDropoutOrder
  std::uint32_t call = 0;
  std::uint32_t threshold = 0;
  float scale = 1.0F;

  DropoutPlan(const DropoutSite& where, BrokenRule rule) : site(where) {
    active = where.probability > 0.0F;
    if (!active) return;
    const double words = static_cast<double>(where.probability) * 4294967296.0;
    threshold = words >= 4294967295.0 ? 0xFFFFFFFFU : static_cast<std::uint32_t>(words);
    scale = 1.0F / (1.0F - where.probability);
    by_call = rule == BrokenRule::kDropoutOrder;
    if (by_call) call = dropout_call_number();
  }
  [[nodiscard]] std::uint32_t sample_of_row(std::int64_t row, std::int64_t positions) const {
    return by_call ? call : site.sample_first + static_cast<std::uint32_t>(row / positions);
  }
};

// Dropped values become 0, kept ones are scaled.
HWY_INLINE F16 apply_mask(const DropoutPlan& plan, const F16& v, const std::uint32_t* words) {
  const hn::RebindToUnsigned<FloatTag> d32;
  F16 r;
  for (int p = 0; p < kParts; ++p) {
    const auto drops = hn::Lt(hn::LoadU(d32, words + p * kPartLanes), hn::Set(d32, plan.threshold));
    r.part[p] = hn::IfThenZeroElse(hn::RebindMask(FloatTag(), drops),
                                   hn::Mul(v.part[p], hn::Set(FloatTag(), plan.scale)));
  }
  return r;
}

// Calls f(column, lanes, mask) over a row of `width` elements, where mask(F16) applies dropout.
template <typename F>
HWY_INLINE void for_dropout_columns(const DropoutPlan& plan, std::int64_t row,
                                    std::int64_t positions, std::int64_t width, F&& f) {
  if (!plan.active) {
    for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
      f(c, lanes, [](const F16& v) HWY_ATTR { return v; });
    });
    return;
  }
  alignas(64) std::uint32_t words[kDropoutChunk + 64];
  const std::uint32_t sample = plan.sample_of_row(row, positions);
  for (std::int64_t begin = 0; begin < width; begin += kDropoutChunk) {
    const std::int64_t end = begin + kDropoutChunk < width ? begin + kDropoutChunk : width;
    const auto element = static_cast<std::uint64_t>((row % positions) * width + begin);
    const auto skipped = static_cast<std::int64_t>(element % 4);
    const std::int64_t lanes_end =
        (end - begin + kVirtualLanes - 1) / kVirtualLanes * kVirtualLanes;
    philox_words(plan.site, sample, element / 4, (skipped + lanes_end + 3) / 4, words);
    const std::uint32_t* first = words + skipped;
    for_columns(begin, end, [&](std::int64_t c, auto lanes) HWY_ATTR {
      f(c, lanes, [&](const F16& v) HWY_ATTR { return apply_mask(plan, v, first + (c - begin)); });
    });
  }
}

}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
