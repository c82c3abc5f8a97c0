// GELU (exact and tanh form) and SwiGLU, forward and backward.
#include "kernels/cpu/nn_operators.hpp"

#include <cstdint>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/activation.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

constexpr float kSqrtHalf = 0.70710678F;
constexpr float kInvSqrtTwoPi = 0.39894228F;
constexpr float kTwoSqrtTwoOverPi = 1.59576912F;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715F;

// s = 1 / (1 + e^-x), and 1 - s without the cancellation. Clamped so that no denormal appears;
// callers multiply by x, which keeps a NaN.
struct Sigmoid16 {
  F16 s;
  F16 rest;
};
HWY_INLINE Sigmoid16 sigmoid16(const F16& x) {
  const F16 one = set16(1.0F);
  const F16 e = exp16_bounded(min16(zero16() - x, set16(80.0F)));
  const F16 s = one / (one + e);
  return {s, e * s};
}
// P(N(0,1) <= x).
HWY_INLINE F16 normal_cdf16(const F16& x) {
  return mul_add(set16(0.5F), erf16(x * set16(kSqrtHalf)), set16(0.5F));
}

struct GeluExact {
  // y = x Phi(x)
  static HWY_INLINE F16 forward(const F16& x) { return x * normal_cdf16(x); }
  // y' = Phi(x) + x phi(x)
  static HWY_INLINE F16 slope(const F16& x) {
    const F16 density = exp16_bounded(x * x * set16(-0.5F)) * set16(kInvSqrtTwoPi);
    return mul_add(x, density, normal_cdf16(x));
  }
};

// 0.5 (1 + tanh(u)) = sigmoid(2u), with u = sqrt(2/pi) (x + 0.044715 x^3).
struct GeluTanh {
  static HWY_INLINE Sigmoid16 gate(const F16& x) {
    const F16 inner = mul_add(x * x, set16(kCubic), set16(1.0F));
    return sigmoid16(x * inner * set16(kTwoSqrtTwoOverPi));
  }
  static HWY_INLINE F16 forward(const F16& x) { return x * gate(x).s; }
  // y' = s + x s (1 - s) 2u'
  static HWY_INLINE F16 slope(const F16& x) {
    const auto [s, rest] = gate(x);
    const F16 inner = mul_add(x * x, set16(3.0F * kCubic), set16(1.0F));
    const F16 bell = s * rest;
    // Where the bell is 0 the product is 0 too, also when x^3 overflowed.
    const F16 steep = min16(x * inner * set16(kTwoSqrtTwoOverPi), set16(1e30F));
    return mul_add(bell, max16(steep, set16(-1e30F)), s) + (x - x);
  }
};

template <typename Function, typename Y>
void elementwise_forward(CpuContext& context, const ActivationForwardArgs& args, Y* y) {
  context.parallel_ranges(args.rows * args.width, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
                            for_columns(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
                              store16(Function::forward(load16(args.x + i, lanes)), y + i, lanes);
                            });
                          });
}
template <typename Function, typename Dx>
void elementwise_backward(CpuContext& context, const ActivationBackwardArgs& args, Dx* dx) {
  context.parallel_ranges(args.rows * args.width, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
                            for_columns(begin, end, [&](std::int64_t i, auto lanes) HWY_ATTR {
                              const F16 slope = Function::slope(load16(args.x + i, lanes));
                              store16(load16(args.dy + i, lanes) * slope, dx + i, lanes);
                            });
                          });
}

// Rows of SwiGLU that a thread takes at a time.
HWY_INLINE std::int64_t rows_per_block(std::int64_t width) {
  return width >= kElementBlock ? 1 : kElementBlock / width;
}

// y = gate sigmoid(gate) up
template <typename Y>
void swiglu_forward(CpuContext& context, const ActivationForwardArgs& args, Y* y) {
  const std::int64_t width = args.width;
  context.parallel_ranges(args.rows, rows_per_block(width),
                          [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
                            for (std::int64_t row = begin; row < end; ++row) {
                              const float* x = args.x + row * 2 * width;
                              for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
                                const F16 gate = load16(x + c, lanes);
                                const F16 up = load16(x + width + c, lanes);
                                store16(gate * sigmoid16(gate).s * up, y + row * width + c, lanes);
                              });
                            }
                          });
}
// dgate = dy up s (1 + gate (1 - s)), dup = dy gate s, with s = sigmoid(gate)
template <typename Dx>
void swiglu_backward(CpuContext& context, const ActivationBackwardArgs& args, Dx* dx) {
  const std::int64_t width = args.width;
  context.parallel_ranges(args.rows, rows_per_block(width),
                          [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
                            for (std::int64_t row = begin; row < end; ++row) {
                              const std::int64_t at = row * 2 * width;
                              for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
                                const F16 gate = load16(args.x + at + c, lanes);
                                const F16 up = load16(args.x + at + width + c, lanes);
                                const F16 dy = load16(args.dy + row * width + c, lanes);
                                const auto [s, rest] = sigmoid16(gate);
                                const F16 slope = s * mul_add(gate, rest, set16(1.0F));
                                store16(dy * up * slope, dx + at + c, lanes);
                                store16(dy * (gate * s), dx + at + width + c, lanes);
                              });
                            }
                          });
}

void activation_forward_target(CpuContext& context, const ActivationForwardArgs& args) {
  with_output(args.y, [&](auto* y) {
    switch (args.kind) {
      case Activation::kGeluExact:
        return elementwise_forward<GeluExact>(context, args, y);
      case Activation::kGeluTanh:
        return elementwise_forward<GeluTanh>(context, args, y);
      case Activation::kSwiglu:
        return swiglu_forward(context, args, y);
    }
  });
}
void activation_backward_target(CpuContext& context, const ActivationBackwardArgs& args) {
  with_output(args.dx, [&](auto* dx) {
    switch (args.kind) {
      case Activation::kGeluExact:
        return elementwise_backward<GeluExact>(context, args, dx);
      case Activation::kGeluTanh:
        return elementwise_backward<GeluTanh>(context, args, dx);
      case Activation::kSwiglu:
        return swiglu_backward(context, args, dx);
    }
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(activation_forward_target);
HWY_EXPORT(activation_backward_target);

void activation_forward(CpuContext& context, const ActivationForwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(activation_forward_target)(context, args);
}
void activation_backward(CpuContext& context, const ActivationBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(activation_backward_target)(context, args);
}
}  // namespace headrace::kernels
#endif
