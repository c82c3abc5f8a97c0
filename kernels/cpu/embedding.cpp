// Token and position embedding, forward and backward.
#include "kernels/cpu/nn_operators.hpp"
#include "runtime/base/check.hpp"

#include <cstdint>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/nn_dropout-inl.hpp"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels::HWY_NAMESPACE {
namespace {

constexpr std::int64_t kForwardRows = 32;
// Columns a thread takes at a time in the backward pass: each column adds its rows in ascending
// order, so any value gives the same bits.
constexpr std::int64_t kBackwardColumns = 64;

void embedding_forward_target(CpuContext& context, const EmbeddingForwardArgs& args) {
  const DropoutPlan plan(args.dropout, context.broken_rule());
  const std::int64_t width = args.width;
  with_output(args.y, [&](auto* y) {
    context.parallel_ranges(
        args.batch * args.positions, kForwardRows,
        [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
          for (std::int64_t row = begin; row < end; ++row) {
            const float* token = args.token + args.ids[row] * width;
            const float* position =
                args.position == nullptr ? nullptr : args.position + row % args.positions * width;
            for_dropout_columns(plan, row, args.positions, width,
                                [&](std::int64_t c, auto lanes, auto mask) HWY_ATTR {
                                  F16 sum = load16(token + c, lanes);
                                  if (position != nullptr) sum = sum + load16(position + c, lanes);
                                  store16(mask(sum), y + row * width + c, lanes);
                                });
          }
        });
  });
}

template <typename Dy>
HWY_INLINE void add_row(const Dy* dy, float* sum, std::int64_t begin, std::int64_t end) {
  for_columns(begin, end, [&](std::int64_t c, auto lanes) HWY_ATTR {
    store16(load16(sum + c, lanes) + load16(dy + c, lanes), sum + c, lanes);
  });
}

void embedding_backward_target(CpuContext& context, const EmbeddingBackwardArgs& args) {
  const std::int64_t rows = args.batch * args.positions;
  with_input(args.dy, [&](auto* dy) {
    context.parallel_ranges(
        args.width, kBackwardColumns, [&](std::int64_t begin, std::int64_t end, int) HWY_ATTR {
          for (std::int64_t row = 0; row < rows; ++row) {
            const auto* from = dy + row * args.width;
            if (args.dtoken != nullptr) {
              add_row(from, args.dtoken + args.ids[row] * args.width, begin, end);
            }
            if (args.dposition != nullptr) {
              add_row(from, args.dposition + row % args.positions * args.width, begin, end);
            }
          }
        });
  });
}

}  // namespace
}  // namespace headrace::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {
HWY_EXPORT(embedding_forward_target);
HWY_EXPORT(embedding_backward_target);

void embedding_forward(CpuContext& context, const EmbeddingForwardArgs& args) {
  HWY_DYNAMIC_DISPATCH(embedding_forward_target)(context, args);
}
void embedding_backward(CpuContext& context, const EmbeddingBackwardArgs& args) {
  for (std::int64_t row = 0; row < args.batch * args.positions; ++row) {
    HEADRACE_CHECK(args.ids[row] >= 0 && args.ids[row] < args.vocabulary, "row", row, "id",
                   args.ids[row], "vocabulary", args.vocabulary);
  }
  HWY_DYNAMIC_DISPATCH(embedding_backward_target)(context, args);
}
}  // namespace headrace::kernels
#endif
