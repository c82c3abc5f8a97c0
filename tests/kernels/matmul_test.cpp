#include "tests/kernels/cpu_test_device.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace headrace;
using namespace headrace::kernels;
using namespace headrace::kernels::test;

namespace {

struct Case {
  std::int64_t rows, cols, inner;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
};

struct Operands {
  explicit Operands(const Case& of) : shape(of) {
    TestValues values(static_cast<std::uint64_t>(shape.rows * 31 + shape.inner));
    a = values.vector(shape.rows * shape.inner);
    b = values.vector(shape.inner * shape.cols);
    c = values.vector(shape.rows * shape.cols);
    bias = values.vector(shape.cols);
  }
  [[nodiscard]] MatmulArgs args(const void* a_data, const void* b_data, DType type) const {
    MatmulArgs result;
    result.a = {a_data, type};
    result.b = {b_data, type};
    result.rows = shape.rows;
    result.cols = shape.cols;
    result.inner = shape.inner;
    result.transpose_a = shape.transpose_a;
    result.transpose_b = shape.transpose_b;
    result.accumulate = shape.accumulate;
    result.bias = shape.bias ? bias.data() : nullptr;
    return result;
  }
  [[nodiscard]] float a_at(std::int64_t row, std::int64_t k) const {
    return a[static_cast<std::size_t>(shape.transpose_a ? k * shape.rows + row
                                                        : row * shape.inner + k)];
  }
  [[nodiscard]] float b_at(std::int64_t k, std::int64_t col) const {
    return b[static_cast<std::size_t>(shape.transpose_b ? col * shape.inner + k
                                                        : k * shape.cols + col)];
  }

  Case shape;
  std::vector<float> a, b, c, bias;
};

std::vector<float> run_f32(const TestDevice& device, const Operands& operands) {
  std::vector<float> c = operands.c;
  MatmulArgs args = operands.args(operands.a.data(), operands.b.data(), DType::kF32);
  args.c = {c.data(), DType::kF32};
  device.operators().matmul(*device.stream, args);
  REQUIRE_MESSAGE(!device.stream->failed(), device.stream->failure().message());
  return c;
}

// Largest |c - reference| / (eps * sum |a b| + |c0| + |bias|) over all elements, in f64.
double worst_error(const Operands& operands, const std::vector<float>& c) {
  double worst = 0;
  const Case& shape = operands.shape;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    for (std::int64_t col = 0; col < shape.cols; ++col) {
      const auto at = static_cast<std::size_t>(row * shape.cols + col);
      double exact = shape.accumulate ? operands.c[at] : 0.0;
      if (shape.bias) exact += operands.bias[static_cast<std::size_t>(col)];
      double magnitude = std::abs(exact);
      for (std::int64_t k = 0; k < shape.inner; ++k) {
        const double product = static_cast<double>(operands.a_at(row, k)) * operands.b_at(k, col);
        exact += product;
        magnitude += std::abs(product);
      }
      worst = std::max(worst, std::abs(c[at] - exact) / (magnitude * 0x1p-24));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("matmul: every transpose with bias and accumulation agrees with f64") {
  const TestDevice device;
  for (const std::int64_t rows : {1, 5, 256, 300}) {
    for (int mask = 0; mask < 16; ++mask) {
      const Case shape{rows,           33, 47, (mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0,
                       (mask & 8) != 0};
      const Operands operands(shape);
      CAPTURE(rows);
      CAPTURE(mask);
      // The bound of recursive summation is 47 + 2; blocked sums stay far below.
      CHECK(worst_error(operands, run_f32(device, operands)) < 12.0);
    }
  }
}

TEST_CASE("matmul: the bits do not depend on the thread count") {
  for (const bool transposed : {false, true}) {
    Case shape{2199, 65, 2199, transposed, !transposed, transposed, !transposed};
    const Operands operands(shape);
    const std::vector<float> one = run_f32(TestDevice(1), operands);
    for (const std::int32_t threads : {2, 3}) {
      const TestDevice device(threads);
      CAPTURE(threads);
      CHECK(same_bits(run_f32(device, operands), one));
      CHECK(same_bits(run_f32(device, operands), one));
    }
  }
}

TEST_CASE("matmul: the broken rule makes blocks follow the thread count and changes bits") {
  const Case shape{700, 272, 2199, true, false, true, false};
  const Operands operands(shape);
  const std::vector<float> good = run_f32(TestDevice(1), operands);
  bool differs = false;
  double worst = 0;
  for (const std::int32_t threads : {1, 2, 3, 64}) {
    const TestDevice device(threads, BrokenRule::kGemmBlocks);
    const std::vector<float> bad = run_f32(device, operands);
    differs = differs || !same_bits(bad, good);
    for (std::size_t i = 0; i < bad.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(bad[i] - good[i])));
    }
  }
  CHECK(differs);
  CHECK(worst < 1e-3);
}

TEST_CASE("matmul: the bits do not depend on the alignment of the operands") {
  Operands operands(Case{300, 72, 521, true, true, true, false});
  const std::vector<float> aligned = run_f32(TestDevice(), operands);
  std::vector<float> a(operands.a.size() + 3);
  std::vector<float> b(operands.b.size() + 5);
  std::vector<float> c(operands.c.size() + 7);
  std::copy(operands.a.begin(), operands.a.end(), a.begin() + 3);
  std::copy(operands.b.begin(), operands.b.end(), b.begin() + 5);
  std::copy(operands.c.begin(), operands.c.end(), c.begin() + 7);
  MatmulArgs args = operands.args(a.data() + 3, b.data() + 5, DType::kF32);
  args.c = {c.data() + 7, DType::kF32};
  const TestDevice device;
  device.operators().matmul(*device.stream, args);
  c.erase(c.begin(), c.begin() + 7);
  CHECK(same_bits(c, aligned));
}

TEST_CASE("matmul: more shapes than are kept still give the right values") {
  const TestDevice device;
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t inner = 1; inner <= 600; ++inner) {
      const std::vector<float> a(static_cast<std::size_t>(inner), 1.0F);
      const std::vector<float> b(static_cast<std::size_t>(inner), 2.0F);
      float c = 0;
      MatmulArgs args;
      args.a = {a.data(), DType::kF32};
      args.b = {b.data(), DType::kF32};
      args.c = {&c, DType::kF32};
      args.rows = 1;
      args.cols = 1;
      args.inner = inner;
      device.operators().matmul(*device.stream, args);
      REQUIRE(c == static_cast<float>(2 * inner));
    }
  }
}

TEST_CASE("matmul: accumulating twice into zeros is a fixed way to add") {
  const Operands operands(Case{300, 40, 2199, true, false, true, false});
  Operands zeroed = operands;
  std::fill(zeroed.c.begin(), zeroed.c.end(), 0.0F);
  const TestDevice one;
  const TestDevice three(3);
  Operands again = zeroed;
  again.c = run_f32(one, zeroed);
  Operands again_three = zeroed;
  again_three.c = run_f32(three, zeroed);
  CHECK(same_bits(run_f32(one, again), run_f32(three, again_three)));
}

TEST_CASE("matmul: bf16 operands give the f32 sum of exact products") {
  const TestDevice device;
  if (!device.device->supports_bf16()) return;
  for (int mask = 0; mask < 8; ++mask) {
    const Case shape{300, 33, 70, (mask & 1) != 0, (mask & 2) != 0, false, (mask & 4) != 0};
    Operands operands(shape);
    const auto a = bf16_of(operands.a);
    const auto b = bf16_of(operands.b);
    for (std::size_t i = 0; i < a.size(); ++i) operands.a[i] = f32_of(a[i]);
    for (std::size_t i = 0; i < b.size(); ++i) operands.b[i] = f32_of(b[i]);
    std::vector<float> c(operands.c.size());
    std::vector<std::uint16_t> narrow(operands.c.size());
    MatmulArgs args = operands.args(a.data(), b.data(), DType::kBf16);
    args.c = {c.data(), DType::kF32};
    device.operators().matmul(*device.stream, args);
    args.c = {narrow.data(), DType::kBf16};
    device.operators().matmul(*device.stream, args);
    REQUIRE_MESSAGE(!device.stream->failed(), device.stream->failure().message());
    CAPTURE(mask);
    CHECK(worst_error(operands, c) < 12.0);
    // The narrow result is the rounded wide one.
    CHECK(narrow == bf16_of(c));
  }
}

TEST_CASE("matmul: bf16 adds into f32 and its bits do not depend on the thread count") {
  if (!TestDevice().device->supports_bf16()) return;
  const Operands operands(Case{2199, 65, 2199, true, false, true, false});
  const auto a = bf16_of(operands.a);
  const auto b = bf16_of(operands.b);
  std::vector<float> first;
  for (const std::int32_t threads : {1, 2, 3}) {
    const TestDevice device(threads);
    std::vector<float> c = operands.c;
    MatmulArgs args = operands.args(a.data(), b.data(), DType::kBf16);
    args.c = {c.data(), DType::kF32};
    device.operators().matmul(*device.stream, args);
    REQUIRE_MESSAGE(!device.stream->failed(), device.stream->failure().message());
    if (threads == 1) first = c;
    CHECK(same_bits(c, first));
  }
}

TEST_CASE("matmul: no rows or no columns is no work") {
  const TestDevice device;
  MatmulArgs args;
  device.operators().matmul(*device.stream, args);
  CHECK_FALSE(device.stream->failed());
}
