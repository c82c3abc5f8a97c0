// Softmax cross-entropy over the vocabulary, with ignored rows, forward and backward.
#include "kernels/cpu/nn_operators.hpp"
#include "runtime/base/check.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/cross_entropy.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_vector-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kRows = 8;

struct SoftmaxRow {
  float largest;
  float log_sum;  // of exp(logit - largest)
};

// BrokenRule::kLibmTail: exp(logit - largest) of the columns after the last whole vector from libm,
// as a loop does whose rest is left to scalar code.
F16 with_libm_tail(const F16& exps, const float* logits, float largest, std::int64_t first,
                   std::int64_t vocabulary) {
  alignas(64) float values[kVirtualLanes];
  store16(exps, values);
  const std::int64_t whole = vocabulary - vocabulary % kPartLanes;
  for (std::int64_t c = first; c < first + kVirtualLanes && c < vocabulary; ++c) {
    if (c >= whole) values[c - first] = std::exp(logits[c] - largest);
  }
  return load16(values);
}

SoftmaxRow softmax_row(const float* logits, std::int64_t vocabulary, bool libm_tail) {
  F16 largest = set16(-std::numeric_limits<float>::infinity());
  for_columns(0, vocabulary, [&](std::int64_t c, auto lanes) HWY_ATTR {
    const F16 row = load16(logits + c, lanes);
    largest = max16(largest, keep_or(row, lanes, -std::numeric_limits<float>::infinity()));
  });
  SoftmaxRow result{max_lanes(largest), 0.0F};
  const F16 top = set16(result.largest);
  F16 sum = zero16();
  for_columns(0, vocabulary, [&](std::int64_t c, auto lanes) HWY_ATTR {
    F16 exps = exp16_bounded(load16(logits + c, lanes) - top);
    if (libm_tail) exps = with_libm_tail(exps, logits, result.largest, c, vocabulary);
    sum = sum + keep(exps, lanes);
  });
  result.log_sum = hn::GetLane(log16(set16(sum_lanes(sum))).part[0]);
  return result;
}

void cross_entropy_forward_target(CpuContext& context, const CrossEntropyForwardArgs& args) {
  double* losses = context.shared_scratch().get<double>(args.rows);
  const bool libm_tail = context.broken_rule() == BrokenRule::kLibmTail;
  context.parallel_ranges(
      args.rows, kRows, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
        for (std::int64_t row = begin; row < end; ++row) {
          const float* logits = args.logits + row * args.vocabulary;
          const SoftmaxRow softmax = softmax_row(logits, args.vocabulary, libm_tail);
          args.lse[row] = softmax.largest + softmax.log_sum;
          const std::int32_t target = args.targets[row];
          losses[row] = target < 0 ? 0.0
                                   : (static_cast<double>(softmax.largest) - logits[target]) +
                                         static_cast<double>(softmax.log_sum);
        }
      });
  const std::int64_t block_rows = context.token_block_rows(args.rows);
  double total = 0.0;
  for (std::int64_t begin = 0; begin < args.rows; begin += block_rows) {
    const std::int64_t end = begin + block_rows < args.rows ? begin + block_rows : args.rows;
    double block = 0.0;
    for (std::int64_t row = begin; row < end; ++row) block += losses[row];
    total += block;
  }
  *args.loss_sum = total;
}

template <typename D>
HWY_INLINE void softmax_gradient_row(const float* logits, float lse, std::int32_t target,
                                     float scale, std::int64_t vocabulary, D* dlogits) {
  if (target < 0) {
    for_columns(0, vocabulary, [&](std::int64_t c, auto lanes) HWY_ATTR {
      store16(zero16(), dlogits + c, lanes);
    });
    return;
  }
  const F16 shift = set16(lse);
  const F16 scale16 = set16(scale);
  // dlogits may be logits itself, so the target's element is taken before it is overwritten.
  const F16 at_target = (exp16_bounded(set16(logits[target]) - shift) - set16(1.0F)) * scale16;
  for_columns(0, vocabulary, [&](std::int64_t c, auto lanes) HWY_ATTR {
    store16(exp16_bounded(load16(logits + c, lanes) - shift) * scale16, dlogits + c, lanes);
  });
  store16(at_target, dlogits + target, FirstLanes{1});
}

void cross_entropy_backward_target(CpuContext& context, const CrossEntropyBackwardArgs& args) {
  with_output(args.dlogits, [&](auto* dlogits) {
    context.parallel_ranges(
        args.rows, kRows, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t at = row * args.vocabulary;
            softmax_gradient_row(args.logits + at, args.lse[row], args.targets[row], args.scale,
                                 args.vocabulary, dlogits + at);
          }
        });
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(cross_entropy_forward_target);
HWY_EXPORT(cross_entropy_backward_target);

void cross_entropy_forward(CpuContext& context, const CrossEntropyForwardArgs& args) {
  for (std::int64_t row = 0; row < args.rows; ++row) {
    HEADRACE_CHECK(args.targets[row] < args.vocabulary, "row", row, "target", args.targets[row],
                   "vocabulary", args.vocabulary);
  }
  HWY_DYNAMIC_DISPATCH(cross_entropy_forward_target)(context, args);
}
void cross_entropy_backward(CpuContext& context, const CrossEntropyBackwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(cross_entropy_backward_target)(context, args);
}
}  // namespace headrace::kernels
#endif
