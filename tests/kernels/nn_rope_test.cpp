// Rotary embedding (Su et al. 2021), rotating halves.
#include "tests/kernels/nn_support.hpp"

#include <cmath>

namespace headrace::kernels::nn_tests {
namespace {

TEST_CASE("rope kernel: the table is the angle in double precision rounded once") {
  const std::int64_t positions = 1000;
  const std::int64_t half = 34;
  Floats cosine(static_cast<std::size_t>(positions * half));
  Floats sine(cosine.size());
  (void)same_bits_everywhere([&](CpuContext& context) {
    rope_table(context, {cosine.data(), sine.data(), positions, 2 * half, 10000.0});
    return cosine;
  });
  double worst = 0;
  for (std::int64_t t = 0; t < positions; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(t) *
                           std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
      const auto at = static_cast<std::size_t>(t * half + i);
      worst = std::max(worst, std::abs(static_cast<double>(cosine[at]) - std::cos(angle)));
      worst = std::max(worst, std::abs(static_cast<double>(sine[at]) - std::sin(angle)));
    }
  }
  CHECK(worst < 3.1e-8);  // half a unit of fp32 just below 1
}

TEST_CASE("rope kernel: heads rotate in place and the inverse undoes it") {
  const std::int64_t batch = 2;
  const std::int64_t positions = 33;
  const std::int64_t width = 68;
  const std::int64_t heads = 3;
  const std::int64_t stride = 5 * width;
  const std::int64_t half = width / 2;
  Floats cosine(static_cast<std::size_t>(positions * half));
  Floats sine(cosine.size());
  CpuContext set_up(CpuContextOptions{});
  rope_table(set_up, {cosine.data(), sine.data(), positions, width, 500.0});
  const Floats x = random_floats(batch * positions * stride, 31);
  const RopeArgs args{nullptr, cosine.data(), sine.data(), batch, positions,
                      heads,   width,         stride,      false};
  const Floats turned = same_bits_everywhere([&](CpuContext& context) {
    Floats y = x;
    RopeArgs a = args;
    a.x = y.data();
    rope(context, a);
    return y;
  });
  const Floats back = same_bits_everywhere([&](CpuContext& context) {
    Floats y = turned;
    RopeArgs a = args;
    a.x = y.data();
    a.inverse = true;
    rope(context, a);
    return y;
  });
  Doubles expected = to_doubles(x);
  for (std::int64_t row = 0; row < batch * positions; ++row) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const auto a = static_cast<std::size_t>(row * stride + head * width + i);
        const auto b = a + static_cast<std::size_t>(half);
        const double angle = static_cast<double>(row % positions) *
                             std::pow(500.0, -static_cast<double>(i) / static_cast<double>(half));
        expected[a] = static_cast<double>(x[a]) * std::cos(angle) -
                      static_cast<double>(x[b]) * std::sin(angle);
        expected[b] = static_cast<double>(x[b]) * std::cos(angle) +
                      static_cast<double>(x[a]) * std::sin(angle);
      }
    }
  }
  check_close("turned", turned, expected, 2e-7, 1e-7);
  check_close("turned back", back, to_doubles(x), 3e-7, 1e-7);
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
