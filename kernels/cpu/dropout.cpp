// Residual addition with dropout, and dropout's backward.
#include "kernels/cpu/nn_operators.hpp"

#include <atomic>
#include <cstdint>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dropout.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_dropout-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

// Rows a thread takes at a time (any value gives the same bits).
constexpr std::int64_t kRows = 32;

void residual_forward_target(CpuContext& context, const ResidualForwardArgs& args) {
  const DropoutPlan plan(args.dropout, context.broken_rule());
  with_input(args.x, [&](auto* x) {
    with_output(args.y, [&](auto* y) {
      context.parallel_ranges(
          args.rows, kRows, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
            for (std::int64_t row = begin; row < end; ++row) {
              const std::int64_t at = row * args.width;
              for_dropout_columns(plan, row, args.positions, args.width,
                                  [&](std::int64_t c, auto lanes, auto mask) HWY_ATTR {
                                    const F16 branch = mask(load16(args.branch + at + c, lanes));
                                    store16(load16(x + at + c, lanes) + branch, y + at + c, lanes);
                                  });
            }
          });
    });
  });
}

void dropout_backward_target(CpuContext& context, const DropoutBackwardArgs& args) {
  const DropoutPlan plan(args.dropout, context.broken_rule());
  with_input(args.dy, [&](auto* dy) {
    with_output(args.dx, [&](auto* dx) {
      context.parallel_ranges(
          args.rows, kRows, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
            for (std::int64_t row = begin; row < end; ++row) {
              const std::int64_t at = row * args.width;
              for_dropout_columns(plan, row, args.positions, args.width,
                                  [&](std::int64_t c, auto lanes, auto mask) HWY_ATTR {
                                    store16(mask(load16(dy + at + c, lanes)), dx + at + c, lanes);
                                  });
            }
          });
    });
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(residual_forward_target);
HWY_EXPORT(dropout_backward_target);

std::uint32_t dropout_call_number() {
  static std::atomic<std::uint32_t> calls{0};
  return calls.fetch_add(1, std::memory_order_relaxed);
}
void residual_forward(CpuContext& context, const ResidualForwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(residual_forward_target)(context, args);
}
void dropout_backward(CpuContext& context, const DropoutBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(dropout_backward_target)(context, args);
}
}  // namespace headrace::kernels
#endif
