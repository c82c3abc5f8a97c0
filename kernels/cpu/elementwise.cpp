// Conversions between f32 and bf16, addition, filling, copying, sleeping.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cpp"
#include "kernels/cpu/simd_targets.hpp"
#include <hwy/foreach_target.h>
#include "kernels/cpu/lanes-inl.hpp"
// clang-format on

#include "kernels/cpu/basic_operators.hpp"
#include "runtime/base/clock.hpp"

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

HWY_BEFORE_NAMESPACE();
namespace headrace::kernels {
namespace HWY_NAMESPACE {

// to[i] = from[i]; From and To are float or uint16_t (bf16).
template <typename From, typename To>
void convert_range(const From* HWY_RESTRICT from, To* HWY_RESTRICT to, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) lanes_store(lanes_load(from + i), to + i);
  if (i < count) lanes_store_n(lanes_load_n(from + i, count - i), to + i, count - i);
}

void f32_to_bf16(const void* from, void* to, std::int64_t begin, std::int64_t end) {
  convert_range(static_cast<const float*>(from) + begin, static_cast<std::uint16_t*>(to) + begin,
                end - begin);
}
void bf16_to_f32(const void* from, void* to, std::int64_t begin, std::int64_t end) {
  convert_range(static_cast<const std::uint16_t*>(from) + begin, static_cast<float*>(to) + begin,
                end - begin);
}

// y may be a or b, so no restrict here: a block of 16 is read before it is written.
void add_range(const float* a, const float* b, float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const LanesF32 sum = lanes_add(lanes_load(a + i), lanes_load(b + i));
    lanes_store(sum, y + i);
  }
  for (; i < count; ++i) y[i] = a[i] + b[i];
}

}  // namespace HWY_NAMESPACE
}  // namespace headrace::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headrace::kernels {

HWY_EXPORT(f32_to_bf16);
HWY_EXPORT(bf16_to_f32);
HWY_EXPORT(add_range);

void copy(CpuContext& context, const CopyArgs& args) {
  const auto* from = static_cast<const std::byte*>(args.from);
  auto* to = static_cast<std::byte*>(args.to);
  const auto block = [=](std::int64_t begin, std::int64_t end, int) {
    std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
  };
  context.parallel_ranges(args.bytes, kElementBlock * 4, block);
}

void convert(CpuContext& context, const ConvertArgs& args) {
  if (args.from.type == args.to.type) {
    const auto bytes = args.count * static_cast<std::int64_t>(bytes_of(args.from.type));
    copy(context, CopyArgs{args.from.data, args.to.data, bytes});
    return;
  }
  const bool narrow = args.from.type == DType::kF32 && args.to.type == DType::kBf16;
  HEADRACE_CHECK(narrow || (args.from.type == DType::kBf16 && args.to.type == DType::kF32),
                 to_string(args.from.type), to_string(args.to.type));
  const auto range = narrow ? HWY_DYNAMIC_DISPATCH(f32_to_bf16) : HWY_DYNAMIC_DISPATCH(bf16_to_f32);
  context.parallel_ranges(args.count, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) {
                            range(args.from.data, args.to.data, begin, end);
                          });
}

void add(CpuContext& context, const AddArgs& args) {
  const auto range = HWY_DYNAMIC_DISPATCH(add_range);
  context.parallel_ranges(args.count, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) {
                            range(args.a + begin, args.b + begin, args.y + begin, end - begin);
                          });
}

void fill(CpuContext& context, const FillArgs& args) {
  context.parallel_ranges(args.count, kElementBlock,
                          [&](std::int64_t begin, std::int64_t end, int) {
                            std::fill(args.x + begin, args.x + end, args.value);
                          });
}

void sleep(CpuContext& context, const SleepArgs& args) {
  constexpr std::int64_t kSliceNs = 1'000'000;
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  // A sleeping thread wakes up 20 us late or so: the end of the time is yielded away.
  constexpr std::int64_t kYieldNs = 40'000;
  // The default slack of 50 us would lengthen every sleep.
  prctl(PR_SET_TIMERSLACK, 1'000UL, 0UL, 0UL, 0UL);
  const std::int64_t end = monotonic_now_ns() + args.nanoseconds;
  for (std::int64_t now = monotonic_now_ns(); now < end; now = monotonic_now_ns()) {
    context.throw_if_stopped();
    const std::int64_t until = std::min(end - kYieldNs, now + kSliceNs);
    if (until <= now) {
      sched_yield();
      continue;
    }
    const timespec deadline{until / kSecondNs, until % kSecondNs};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, nullptr);
  }
}

}  // namespace headrace::kernels
#endif  // HWY_ONCE
