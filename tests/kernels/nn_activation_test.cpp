// GELU (Hendrycks & Gimpel 2016) and SwiGLU (Shazeer 2020) against their formulas.
#include "tests/kernels/nn_support.hpp"

#include <cmath>
#include <limits>

namespace headrace::kernels::nn_tests {
namespace {

double gelu_exact(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }
double gelu_tanh(double x) {
  const double pi = std::acos(-1.0);
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
}
double silu(double x) { return x / (1.0 + std::exp(-x)); }

Doubles reference(Activation kind, std::int64_t rows, std::int64_t width, const Doubles& x) {
  Doubles y(static_cast<std::size_t>(rows * width));
  const auto c = static_cast<std::size_t>(width);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t gate = i / c * 2 * c + i % c;
    if (kind == Activation::kGeluExact) y[i] = gelu_exact(x[i]);
    if (kind == Activation::kGeluTanh) y[i] = gelu_tanh(x[i]);
    if (kind == Activation::kSwiglu) y[i] = silu(x[gate]) * x[gate + c];
  }
  return y;
}

void check_activation(Activation kind, std::int64_t rows, std::int64_t width) {
  CAPTURE(static_cast<int>(kind));
  CAPTURE(width);
  const std::int64_t inputs = kind == Activation::kSwiglu ? 2 * width : width;
  const Floats x = random_floats(rows * inputs, 21, 6.0F);
  const Floats dy = random_floats(rows * width, 22);
  Floats y(dy.size());
  Floats dx(x.size());
  std::vector<std::uint16_t> y16(dy.size());
  std::vector<std::uint16_t> dx16(x.size());
  (void)same_bits_everywhere([&](CpuContext& context) {
    activation_forward(context, {kind, x.data(), {y.data(), DType::kF32}, rows, width});
    activation_backward(context,
                        {kind, x.data(), dy.data(), {dx.data(), DType::kF32}, rows, width});
    activation_forward(context, {kind, x.data(), {y16.data(), DType::kBf16}, rows, width});
    activation_backward(context,
                        {kind, x.data(), dy.data(), {dx16.data(), DType::kBf16}, rows, width});
    CHECK(y16 == to_bf16(y));
    CHECK(dx16 == to_bf16(dx));
    Floats all = y;
    all.insert(all.end(), dx.begin(), dx.end());
    return all;
  });
  Doubles x64 = to_doubles(x);
  // The tail of GELU is a difference of near-equal numbers in fp32: an absolute error of a few
  // 1e-7 times |x| is all that fp32 allows.
  check_close("y", y, reference(kind, rows, width, x64), 8e-7, 4e-7);
  const auto loss = [&] {
    const Doubles out = reference(kind, rows, width, x64);
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * static_cast<double>(dy[i]);
    return sum;
  };
  check_gradient("dx", x64, dx, loss, 2e-6, 200);
}

TEST_CASE("activation kernel: GELU and SwiGLU equal their formulas and finite differences") {
  for (const auto kind : {Activation::kGeluExact, Activation::kGeluTanh, Activation::kSwiglu}) {
    check_activation(kind, 1, 1);
    check_activation(kind, 3, 272);
    check_activation(kind, 129, 33);
  }
}

TEST_CASE("activation kernel: large values saturate and a NaN stays a NaN") {
  const float big = 1e30F;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Floats x = {big, -big, 100.0F, -100.0F, 0.0F, nan};
  const Floats ones(x.size(), 1.0F);
  const auto count = static_cast<std::int64_t>(x.size());
  CpuContext context(CpuContextOptions{});
  for (const auto kind : {Activation::kGeluExact, Activation::kGeluTanh}) {
    Floats y(x.size());
    Floats dx(x.size());
    activation_forward(context, {kind, x.data(), {y.data(), DType::kF32}, 1, count});
    activation_backward(context, {kind, x.data(), ones.data(), {dx.data(), DType::kF32}, 1, count});
    CHECK(y[0] == big);
    CHECK(std::abs(y[1]) < 1e-3F);
    CHECK(y[2] == 100.0F);
    CHECK(std::abs(y[3]) < 1e-30F);
    CHECK(y[4] == 0.0F);
    CHECK(std::isnan(y[5]));
    CHECK(dx[0] == 1.0F);
    CHECK(std::abs(dx[1]) < 1e-3F);
    CHECK(dx[2] == 1.0F);
    CHECK(std::abs(dx[3]) < 1e-25F);
    CHECK(dx[4] == 0.5F);
    CHECK(std::isnan(dx[5]));
  }
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
