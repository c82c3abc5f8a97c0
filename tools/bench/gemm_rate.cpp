#include "tools/bench/gemm_rate.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/operators.hpp"
#include "runtime/base/clock.hpp"

#include <algorithm>
#include <limits>

namespace headrace::bench {
namespace {

std::unique_ptr<kernels::Device> device_for(bool blocks) {
  kernels::CpuDeviceOptions options;
  // Breaking this rule with one thread gives a single block of all rows.
  if (!blocks) options.broken_rule = BrokenRule::kGemmBlocks;
  return kernels::make_cpu_device(options);
}

void reserve(kernels::Device& device, kernels::Buffer& buffer, std::int64_t elements) {
  const auto bytes = static_cast<std::size_t>(elements) * sizeof(float);
  if (buffer.bytes() < bytes) buffer = device.allocate(bytes);
}

}  // namespace

GemmRate::GemmRate(bool blocks) : device_(device_for(blocks)), stream_(device_->make_stream()) {}

double GemmRate::seconds(const GemmShape& shape, int tries) {
  reserve(*device_, a_, shape.rows * shape.inner);
  reserve(*device_, b_, shape.inner * shape.cols);
  reserve(*device_, c_, shape.rows * shape.cols);
  reserve(*device_, bias_, shape.cols);
  kernels::MatmulArgs args;
  args.a = {a_.data(), shape.in};
  args.b = {b_.data(), shape.in};
  args.c = {c_.data(), shape.out};
  args.rows = shape.rows;
  args.cols = shape.cols;
  args.inner = shape.inner;
  args.transpose_a = shape.transpose_a;
  args.transpose_b = shape.transpose_b;
  args.accumulate = shape.accumulate;
  if (shape.bias) args.bias = bias_.as<float>();
  device_->operators().matmul(*stream_, args);  // makes the primitive
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < tries; ++i) {
    const std::int64_t begin = monotonic_now_ns();
    device_->operators().matmul(*stream_, args);
    best = std::min(best, static_cast<double>(monotonic_now_ns() - begin) * 1e-9);
  }
  return best;
}

double GemmRate::rate(const GemmShape& shape, int tries) {
  return shape.flops() / seconds(shape, tries);
}

}  // namespace headrace::bench
