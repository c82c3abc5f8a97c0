// LayerNorm and RMSNorm, forward and backward.
#include "kernels/cpu/nn_operators.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/norm.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

// Rows a thread takes at a time where rows are independent (any value gives the same bits).
constexpr std::int64_t kForwardRows = 32;

template <typename X, typename Y>
void norm_row(const NormForwardArgs& args, std::int64_t row, const X* x, Y* y) {
  const std::int64_t width = args.width;
  const auto count = static_cast<float>(width);
  float mean = 0.0F;
  if (args.mean != nullptr) {
    F16 sum = zero16();
    for_columns(0, width,
                [&](std::int64_t c, auto lanes) HWY_ATTR { sum = sum + load16(x + c, lanes); });
    mean = sum_lanes(sum) / count;
    args.mean[row] = mean;
  }
  const F16 mean16 = set16(mean);
  F16 squares = zero16();
  for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
    const F16 centred = keep(load16(x + c, lanes) - mean16, lanes);
    squares = mul_add(centred, centred, squares);
  });
  const float rstd = 1.0F / std::sqrt(sum_lanes(squares) / count + args.epsilon);
  args.rstd[row] = rstd;
  const F16 rstd16 = set16(rstd);
  for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
    const F16 normed = (load16(x + c, lanes) - mean16) * rstd16;
    const F16 gain = load16(args.gain + c, lanes);
    store16(
        args.bias != nullptr ? mul_add(normed, gain, load16(args.bias + c, lanes)) : normed * gain,
        y + c, lanes);
  });
}

void norm_forward_target(CpuContext& context, const NormForwardArgs& args) {
  with_input(args.x, [&](auto* x) {
    with_output(args.y, [&](auto* y) {
      context.parallel_ranges(args.rows, kForwardRows,
                              [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
                                for (std::int64_t row = begin; row < end; ++row) {
                                  norm_row(args, row, x + row * args.width, y + row * args.width);
                                }
                              });
    });
  });
}

// dx = rstd * (g - mean(g) - xhat * mean(g * xhat)) with g = dy * gain; RMSNorm has no mean(g).
template <typename X, typename Dy, typename R, typename Dx>
void norm_backward_row(const NormBackwardArgs& args, std::int64_t row, const X* x, const Dy* dy,
                       const R* residual, Dx* dx, float* dgain, float* dbias) {
  const std::int64_t width = args.width;
  const F16 mean = set16(args.mean != nullptr ? args.mean[row] : 0.0F);
  const F16 rstd = set16(args.rstd[row]);
  F16 sum_g = zero16();
  F16 sum_gx = zero16();
  for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
    const F16 xhat = (load16(x + c, lanes) - mean) * rstd;
    const F16 up = load16(dy + c, lanes);  // zero outside of the row, and so is what follows
    const F16 g = up * load16(args.gain + c, lanes);
    sum_g = sum_g + g;
    sum_gx = mul_add(g, xhat, sum_gx);
    if (dgain != nullptr) {
      store16(mul_add(up, xhat, load16(dgain + c, lanes)), dgain + c, lanes);
      if (dbias != nullptr) store16(load16(dbias + c, lanes) + up, dbias + c, lanes);
    }
  });
  const auto count = static_cast<float>(width);
  const F16 mean_g = set16(args.mean != nullptr ? sum_lanes(sum_g) / count : 0.0F);
  const F16 mean_gx = set16(sum_lanes(sum_gx) / count);
  for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
    const F16 xhat = (load16(x + c, lanes) - mean) * rstd;
    const F16 g = load16(dy + c, lanes) * load16(args.gain + c, lanes);
    F16 d = neg_mul_add(xhat, mean_gx, g - mean_g) * rstd;
    if (residual != nullptr) d = load16(residual + c, lanes) + d;
    store16(d, dx + c, lanes);
  });
}

template <typename X, typename Dy, typename R, typename Dx>
void norm_backward_rows(CpuContext& context, const NormBackwardArgs& args, const X* x, const Dy* dy,
                        const R* residual, Dx* dx) {
  const std::int64_t width = args.width;
  const bool parts = args.dgain_part != nullptr;
  const std::int64_t block_rows = context.token_block_rows(args.rows);
  const std::int64_t blocks = block_count(args.rows, block_rows);
  float* sums = parts ? context.shared_scratch().get<float>(blocks * 2 * width) : nullptr;
  context.parallel_for(blocks, [&](std::int64_t block, int) HWY_ATTR {
    float* dgain = parts ? sums + block * 2 * width : nullptr;
    float* dbias = parts && args.dbias_part != nullptr ? dgain + width : nullptr;
    if (parts) std::memset(dgain, 0, static_cast<std::size_t>(2 * width) * sizeof(float));
    const std::int64_t begin = block * block_rows;
    const std::int64_t end = begin + block_rows < args.rows ? begin + block_rows : args.rows;
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t at = row * width;
      norm_backward_row(args, row, x + at, dy + at, residual == nullptr ? nullptr : residual + at,
                        dx + at, dgain, dbias);
    }
  });
  if (!parts) return;
  // The blocks' sums in block order, starting from zero.
  for_columns(0, width, [&](std::int64_t c, auto lanes) HWY_ATTR {
    F16 dgain = zero16();
    F16 dbias = zero16();
    for (std::int64_t block = 0; block < blocks; ++block) {
      dgain = dgain + load16(sums + block * 2 * width + c, lanes);
      if (args.dbias_part != nullptr) {
        dbias = dbias + load16(sums + (block * 2 + 1) * width + c, lanes);
      }
    }
    store16(dgain, args.dgain_part + c, lanes);
    if (args.dbias_part != nullptr) store16(dbias, args.dbias_part + c, lanes);
  });
}

void norm_backward_target(CpuContext& context, const NormBackwardArgs& args) {
  with_input(args.x, [&](auto* x) {
    with_input(args.dy, [&](auto* dy) {
      with_input(args.residual, [&](auto* residual) {
        with_output(args.dx,
                    [&](auto* dx) { norm_backward_rows(context, args, x, dy, residual, dx); });
      });
    });
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(norm_forward_target);
HWY_EXPORT(norm_backward_target);

void norm_forward(CpuContext& context, const NormForwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(norm_forward_target)(context, args);
}
void norm_backward(CpuContext& context, const NormBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(norm_backward_target)(context, args);
}
}  // namespace headrace::kernels
#endif
