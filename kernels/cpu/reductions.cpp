// Column sums, sums of squares, and the search for non-finite values.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/reductions.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/lanes-inl.hpp"
// clang-format on

#include "kernels/cpu/basic_operators.hpp"

#include <algorithm>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// sum[0..width) += column sums of x, whose rows are `stride` apart: a block of rows at a time.
// Columns do not mix, so lanes and column chunks do not matter here.
template <typename T>
void column_chunk(const T* x, float* sum, std::int64_t rows, std::int64_t stride,
                  std::int64_t width, std::int64_t block_rows) {
  for (std::int64_t first = 0; first < rows; first += block_rows) {
    const std::int64_t last = std::min(rows, first + block_rows);
    std::int64_t c = 0;
    for (; c + kLanes <= width; c += kLanes) {
      LanesF32 block = lanes_zero();
      for (std::int64_t r = first; r < last; ++r) {
        block = lanes_add(block, lanes_load(x + r * stride + c));
      }
      lanes_store(lanes_add(lanes_load(sum + c), block), sum + c);
    }
    if (c == width) continue;
    LanesF32 block = lanes_zero();
    for (std::int64_t r = first; r < last; ++r) {
      block = lanes_add(block, lanes_load_n(x + r * stride + c, width - c));
    }
    lanes_store_n(lanes_add(lanes_load_n(sum + c, width - c), block), sum + c, width - c);
  }
}
void column_chunk_f32(const void* x, float* sum, std::int64_t rows, std::int64_t stride,
                      std::int64_t width, std::int64_t block_rows) {
  column_chunk(static_cast<const float*>(x), sum, rows, stride, width, block_rows);
}
void column_chunk_bf16(const void* x, float* sum, std::int64_t rows, std::int64_t stride,
                       std::int64_t width, std::int64_t block_rows) {
  column_chunk(static_cast<const std::uint16_t*>(x), sum, rows, stride, width, block_rows);
}

// f64 sum of squares over 16 virtual lanes.
double sum_squares_block(const float* x, std::int64_t count) {
  LanesF64 sum = lanes_set(0.0);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const LanesF64 v = lanes_promote(x + i);
    sum = lanes_mul_add(v, v, sum);
  }
  if (i < count) {
    float padded[kLanes] = {};
    std::copy(x + i, x + count, padded);
    const LanesF64 v = lanes_promote(padded);
    sum = lanes_mul_add(v, v, sum);
  }
  return lanes_fold_sum(sum);
}

// BrokenRule::kNativeLanes: as many lanes as a vector of this instruction set has.
double sum_squares_native(const float* x, std::int64_t count) {
  const TagF64 d;
  constexpr auto kWidth = static_cast<std::int64_t>(LanesF64::kWidth);
  auto sum = hn::Zero(d);
  const std::int64_t whole = count - count % kWidth;
  for (std::int64_t i = 0; i < whole; i += kWidth) {
    const auto v = hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, TagF64>(), x + i));
    sum = hn::MulAdd(v, v, sum);
  }
  double total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (std::int64_t i = whole; i < count; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

// Index of the first non-finite element, or count.
template <typename T>
std::int64_t first_non_finite(const T* x, std::int64_t count) {
  const TagF32 d;
  std::int64_t i = 0;
  for (; i < count; i += kLanes) {
    const std::int64_t n = std::min(kLanes, count - i);
    const LanesF32 v = n == kLanes ? lanes_load(x + i) : lanes_load_n(x + i, n);
    bool finite = true;
    for (const auto& part : v.part) finite = finite && hn::AllTrue(d, hn::IsFinite(part));
    if (finite) continue;
    float values[kLanes];
    lanes_store(v, values);
    const auto bad = std::find_if(values, values + kLanes, [](float value) {
      return !(value - value == 0.0F);  // infinity and NaN only
    });
    return i + (bad - values);
  }
  return count;
}
std::int64_t first_non_finite_f32(const void* x, std::int64_t begin, std::int64_t end) {
  return begin + first_non_finite(static_cast<const float*>(x) + begin, end - begin);
}
std::int64_t first_non_finite_bf16(const void* x, std::int64_t begin, std::int64_t end) {
  return begin + first_non_finite(static_cast<const std::uint16_t*>(x) + begin, end - begin);
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(column_chunk_f32);
HWY_EXPORT(column_chunk_bf16);
HWY_EXPORT(sum_squares_block);
HWY_EXPORT(sum_squares_native);
HWY_EXPORT(first_non_finite_f32);
HWY_EXPORT(first_non_finite_bf16);

void column_sum(CpuContext& context, const ColumnSumArgs& args) {
  constexpr std::int64_t kColumnChunk = 64;
  const bool is_bf16 = args.x.type == DType::kBf16;
  const auto chunk =
      is_bf16 ? HWY_DYNAMIC_DISPATCH(column_chunk_bf16) : HWY_DYNAMIC_DISPATCH(column_chunk_f32);
  const auto element_bytes = static_cast<std::int64_t>(bytes_of(args.x.type));
  const std::int64_t block_rows = context.token_block_rows(args.rows);
  const auto* x = static_cast<const std::byte*>(args.x.data);
  context.parallel_ranges(args.cols, kColumnChunk, [&](std::int64_t begin, std::int64_t end, int) {
    chunk(x + begin * element_bytes, args.sum + begin, args.rows, args.cols, end - begin,
          block_rows);
  });
}

void sum_squares(CpuContext& context, const SumSquaresArgs& args) {
  const auto block_sum = context.broken_rule() == BrokenRule::kNativeLanes
                             ? HWY_DYNAMIC_DISPATCH(sum_squares_native)
                             : HWY_DYNAMIC_DISPATCH(sum_squares_block);
  const std::int64_t blocks = block_count(args.count, kNormBlock);
  auto* parts = context.shared_scratch().get<double>(blocks);
  context.parallel_ranges(args.count, kNormBlock, [&](std::int64_t begin, std::int64_t end, int) {
    parts[begin / kNormBlock] = block_sum(args.x + begin, end - begin);
  });
  double sum = 0;
  for (std::int64_t block = 0; block < blocks; ++block) sum += parts[block];
  args.result[0] = sum;
}

void find_non_finite(CpuContext& context, const FindNonFiniteArgs& args) {
  const bool is_bf16 = args.x.type == DType::kBf16;
  const auto find = is_bf16 ? HWY_DYNAMIC_DISPATCH(first_non_finite_bf16)
                            : HWY_DYNAMIC_DISPATCH(first_non_finite_f32);
  std::atomic<std::int64_t> first{std::numeric_limits<std::int64_t>::max()};
  context.parallel_ranges(args.count, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) {
                            if (begin > first.load(std::memory_order_relaxed)) return;
                            const std::int64_t found = find(args.x.data, begin, end);
                            if (found == end) return;
                            std::int64_t known = first.load(std::memory_order_relaxed);
                            while (found < known && !first.compare_exchange_weak(known, found)) {
                            }
                          });
  const std::int64_t found = first.load();
  args.result[0] = found == std::numeric_limits<std::int64_t>::max() ? -1 : found;
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
