// AdamW and SGD, elementwise over one parameter.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/optimizers.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/lanes-inl.hpp"
// clang-format on

#include "kernels/cpu/basic_operators.hpp"

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

struct AdamwLanes {
  LanesF32 weight, first, second;
};

// kIsFused: BrokenRule::kContraction, what a compiler does to a product whose only use is a sum, on
// the instruction set it finds that worth its while.
template <bool kIsFused>
HWY_INLINE AdamwLanes adamw_step(const AdamwArgs& args, const AdamwLanes& old,
                                 const LanesF32& gradient) {
  const TagF32 d;
  AdamwLanes now;
  for (std::size_t i = 0; i < LanesF32::kParts; ++i) {
    const auto g = hn::Mul(gradient.part[i], hn::Set(d, args.gradient_scale));
    // m = beta1*m + (1-beta1)*g, written as PyTorch's lerp: m + (1-beta1)*(g-m).
    auto change = hn::Sub(g, old.first.part[i]);
    if constexpr (kIsFused) {
      change = hn::MulSub(gradient.part[i], hn::Set(d, args.gradient_scale), old.first.part[i]);
    }
    const auto m = hn::MulAdd(change, hn::Set(d, 1.0F - args.beta1), old.first.part[i]);
    const auto v = hn::MulAdd(hn::Mul(g, g), hn::Set(d, 1.0F - args.beta2),
                              hn::Mul(old.second.part[i], hn::Set(d, args.beta2)));
    const auto m_hat = hn::Div(m, hn::Set(d, args.bias_correction1));
    const auto v_hat = hn::Div(v, hn::Set(d, args.bias_correction2));
    const auto direction = hn::Div(m_hat, hn::Add(hn::Sqrt(v_hat), hn::Set(d, args.epsilon)));
    const auto w = old.weight.part[i];
    const auto update = hn::MulAdd(hn::Set(d, args.weight_decay), w, direction);
    now.weight.part[i] = hn::NegMulAdd(hn::Set(d, args.learning_rate), update, w);
    now.first.part[i] = m;
    now.second.part[i] = v;
  }
  return now;
}

template <bool kIsFused>
void adamw_elements(const AdamwArgs& args, std::int64_t begin, std::int64_t end) {
  auto* mirror = static_cast<std::uint16_t*>(args.mirror_bf16);
  for (std::int64_t i = begin; i < end; i += kLanes) {
    const std::int64_t n = end - i < kLanes ? end - i : kLanes;
    if (n == kLanes) {
      const AdamwLanes old{lanes_load(args.weight + i), lanes_load(args.first_moment + i),
                           lanes_load(args.second_moment + i)};
      const AdamwLanes now = adamw_step<kIsFused>(args, old, lanes_load(args.gradient + i));
      lanes_store(now.weight, args.weight + i);
      lanes_store(now.first, args.first_moment + i);
      lanes_store(now.second, args.second_moment + i);
      if (mirror != nullptr) lanes_store(now.weight, mirror + i);
      continue;
    }
    const AdamwLanes old{lanes_load_n(args.weight + i, n), lanes_load_n(args.first_moment + i, n),
                         lanes_load_n(args.second_moment + i, n)};
    const AdamwLanes now = adamw_step<kIsFused>(args, old, lanes_load_n(args.gradient + i, n));
    lanes_store_n(now.weight, args.weight + i, n);
    lanes_store_n(now.first, args.first_moment + i, n);
    lanes_store_n(now.second, args.second_moment + i, n);
    if (mirror != nullptr) lanes_store_n(now.weight, mirror + i, n);
  }
}

void adamw_range(const AdamwArgs& args, std::int64_t begin, std::int64_t end) {
  adamw_elements<false>(args, begin, end);
}
void adamw_range_contracted(const AdamwArgs& args, std::int64_t begin, std::int64_t end) {
  adamw_elements<LanesF32::kParts == 1>(args, begin, end);
}

struct SgdLanes {
  LanesF32 weight, momentum;
};

HWY_INLINE SgdLanes sgd_step(const SgdArgs& args, const SgdLanes& old, const LanesF32& gradient) {
  const TagF32 d;
  SgdLanes now;
  for (std::size_t i = 0; i < LanesF32::kParts; ++i) {
    const auto w = old.weight.part[i];
    auto g = hn::Mul(gradient.part[i], hn::Set(d, args.gradient_scale));
    g = hn::MulAdd(hn::Set(d, args.weight_decay), w, g);
    g = hn::MulAdd(hn::Set(d, args.momentum), old.momentum.part[i], g);
    now.momentum.part[i] = g;
    now.weight.part[i] = hn::NegMulAdd(hn::Set(d, args.learning_rate), g, w);
  }
  return now;
}

void sgd_range(const SgdArgs& args, std::int64_t begin, std::int64_t end) {
  auto* mirror = static_cast<std::uint16_t*>(args.mirror_bf16);
  float* buffer = args.momentum_buffer;
  for (std::int64_t i = begin; i < end; i += kLanes) {
    const std::int64_t n = end - i < kLanes ? end - i : kLanes;
    if (n == kLanes) {
      const SgdLanes old{lanes_load(args.weight + i),
                         buffer != nullptr ? lanes_load(buffer + i) : lanes_zero()};
      const SgdLanes now = sgd_step(args, old, lanes_load(args.gradient + i));
      lanes_store(now.weight, args.weight + i);
      if (buffer != nullptr) lanes_store(now.momentum, buffer + i);
      if (mirror != nullptr) lanes_store(now.weight, mirror + i);
      continue;
    }
    const SgdLanes old{lanes_load_n(args.weight + i, n),
                       buffer != nullptr ? lanes_load_n(buffer + i, n) : lanes_zero()};
    const SgdLanes now = sgd_step(args, old, lanes_load_n(args.gradient + i, n));
    lanes_store_n(now.weight, args.weight + i, n);
    if (buffer != nullptr) lanes_store_n(now.momentum, buffer + i, n);
    if (mirror != nullptr) lanes_store_n(now.weight, mirror + i, n);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(adamw_range);
HWY_EXPORT(adamw_range_contracted);
HWY_EXPORT(sgd_range);

void adamw(CpuContext& context, const AdamwArgs& args) {
  const auto range = context.broken_rule() == BrokenRule::kContraction
                         ? HWY_DYNAMIC_DISPATCH(adamw_range_contracted)
                         : HWY_DYNAMIC_DISPATCH(adamw_range);
  context.parallel_ranges(
      args.count, kElementBlock,
      [&](std::int64_t begin, std::int64_t end, int) { range(args, begin, end); });
}

void sgd(CpuContext& context, const SgdArgs& args) {
  const auto range = HWY_DYNAMIC_DISPATCH(sgd_range);
  context.parallel_ranges(
      args.count, kElementBlock,
      [&](std::int64_t begin, std::int64_t end, int) { range(args, begin, end); });
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
