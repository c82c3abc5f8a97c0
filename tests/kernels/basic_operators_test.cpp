#include "runtime/base/clock.hpp"
#include "tests/kernels/cpu_test_device.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace headrace;
using namespace headrace::kernels;
using namespace headrace::kernels::test;

TEST_CASE("convert: f32 to bf16 rounds every kind of value to nearest even") {
  // Every upper half with the low halves that decide the rounding.
  const TestDevice device;
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper < 0x10000U; ++upper) {
    for (const std::uint32_t low : {0x0000U, 0x7FFFU, 0x8000U, 0x8001U}) {
      const std::uint32_t bits = (upper << 16U) | low;
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      values.push_back(value);
    }
  }
  values.pop_back();  // an odd count exercises the tail
  std::vector<std::uint16_t> narrow(values.size());
  const auto count = static_cast<std::int64_t>(values.size());
  device.operators().convert(*device.stream, {values.data(), DType::kF32},
                             {narrow.data(), DType::kBf16}, count);
  CHECK(narrow == bf16_of(values));
  std::vector<float> wide(values.size());
  device.operators().convert(*device.stream, {narrow.data(), DType::kBf16},
                             {wide.data(), DType::kF32}, count);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const float expected = f32_of(narrow[i]);
    wrong += std::memcmp(&expected, &wide[i], sizeof(float)) != 0 ? 1U : 0U;
  }
  CHECK(wrong == 0U);
}

TEST_CASE("convert: equal types are copied") {
  const TestDevice device;
  const std::vector<float> from = TestValues(3).vector(1001);
  std::vector<float> to(from.size());
  device.operators().convert(*device.stream, {from.data(), DType::kF32}, {to.data(), DType::kF32},
                             1001);
  CHECK(same_bits(from, to));
}

TEST_CASE("add fill copy: every length up to 40 and one over a block") {
  const TestDevice device(2);
  for (std::int64_t count = 0; count <= 41; ++count) {
    const std::int64_t n = count == 41 ? 40'001 : count;
    TestValues values(static_cast<std::uint64_t>(n));
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> a = values.vector(n);
    const std::vector<float> b = values.vector(n);
    std::vector<float> expected(size);
    for (std::size_t i = 0; i < size; ++i) expected[i] = a[i] + b[i];
    std::vector<float> copied(size + 1, 7.0F);
    device.operators().add(*device.stream, a.data(), b.data(), a.data(), n);
    device.operators().copy(*device.stream, a.data(), copied.data(), n * 4);
    CHECK(copied[size] == 7.0F);
    copied.pop_back();
    CHECK(same_bits(copied, expected));
    std::vector<float> filled(size + 1, 7.0F);
    device.operators().fill(*device.stream, filled.data(), 2.5F, n);
    CHECK(filled[size] == 7.0F);
    filled.pop_back();
    CHECK(filled == std::vector<float>(size, 2.5F));
  }
}

TEST_CASE("sleep: holds the stream for about the time asked") {
  const TestDevice device;
  const std::int64_t start = monotonic_now_ns();
  device.operators().sleep(*device.stream, 3'000'000);
  CHECK(monotonic_now_ns() - start >= 3'000'000);
}

TEST_CASE("column sum: adds 256-row blocks in order whatever the threads") {
  for (const std::int64_t rows : {0, 1, 255, 256, 257, 1000}) {
    for (const std::int64_t cols : {1, 15, 16, 65, 200}) {
      TestValues values(static_cast<std::uint64_t>(rows + cols));
      const std::vector<float> x = values.vector(rows * cols);
      std::vector<float> expected = values.vector(cols);
      const std::vector<float> start = expected;
      for (std::int64_t first = 0; first < rows; first += 256) {
        for (std::int64_t c = 0; c < cols; ++c) {
          float block = 0;
          for (std::int64_t r = first; r < std::min(rows, first + 256); ++r) {
            block += x[static_cast<std::size_t>(r * cols + c)];
          }
          expected[static_cast<std::size_t>(c)] += block;
        }
      }
      for (const std::int32_t threads : {1, 3}) {
        const TestDevice device(threads);
        std::vector<float> sum = start;
        ColumnSumArgs args;
        args.x = {x.data(), DType::kF32};
        args.sum = sum.data();
        args.rows = rows;
        args.cols = cols;
        device.operators().column_sum(*device.stream, args);
        CAPTURE(rows);
        CAPTURE(cols);
        CHECK(same_bits(sum, expected));
      }
    }
  }
}

TEST_CASE("column sum: bf16 input and the broken rule") {
  const std::int64_t rows = 1000;
  const std::int64_t cols = 33;
  const std::vector<float> x = TestValues(5).vector(rows * cols);
  const auto narrow = bf16_of(x);
  std::vector<float> wide;
  for (const std::uint16_t value : narrow) wide.push_back(f32_of(value));
  const auto sum_of = [&](const TestDevice& device, ConstRef data) {
    std::vector<float> sum(static_cast<std::size_t>(cols));
    ColumnSumArgs args{data, sum.data(), rows, cols};
    device.operators().column_sum(*device.stream, args);
    return sum;
  };
  const std::vector<float> good = sum_of(TestDevice(1), {wide.data(), DType::kF32});
  CHECK(same_bits(sum_of(TestDevice(2), {narrow.data(), DType::kBf16}), good));
  const TestDevice broken(3, BrokenRule::kTokenBlocks);
  CHECK_FALSE(same_bits(sum_of(broken, {wide.data(), DType::kF32}), good));
}

TEST_CASE("sum of squares: folds f64 blocks of 65536 in order") {
  for (const std::int64_t count : {0, 1, 16, 17, 65'536, 65'537, 200'001}) {
    const std::vector<float> x = TestValues(static_cast<std::uint64_t>(count)).vector(count);
    double expected = 0;
    for (std::int64_t first = 0; first < count; first += 65'536) {
      double lanes[16] = {};
      for (std::int64_t i = first; i < std::min(count, first + 65'536); ++i) {
        const double v = x[static_cast<std::size_t>(i)];
        lanes[(i - first) % 16] = std::fma(v, v, lanes[(i - first) % 16]);
      }
      for (int width = 8; width > 0; width /= 2) {
        for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
      }
      expected += lanes[0];
    }
    for (const std::int32_t threads : {1, 2}) {
      const TestDevice device(threads);
      double result = -1;
      device.operators().sum_squares(*device.stream, SumSquaresArgs{x.data(), count, &result});
      CAPTURE(count);
      CHECK(result == expected);
    }
  }
}

TEST_CASE("find non-finite: names the first infinity or NaN of both types") {
  const std::int64_t count = 50'003;
  std::vector<float> x = TestValues(9).vector(count);
  x[7] = std::numeric_limits<float>::max();
  x[8] = std::numeric_limits<float>::denorm_min();
  const TestDevice device(2);
  const auto search = [&](ConstRef data) {
    std::int64_t found = -2;
    device.operators().find_non_finite(*device.stream, FindNonFiniteArgs{data, count, &found});
    return found;
  };
  CHECK(search({x.data(), DType::kF32}) == -1);
  x[7] = 1;
  x[50'002] = std::numeric_limits<float>::quiet_NaN();
  CHECK(search({x.data(), DType::kF32}) == 50'002);
  CHECK(search({bf16_of(x).data(), DType::kBf16}) == 50'002);
  x[33'333] = -std::numeric_limits<float>::infinity();
  x[40'000] = std::numeric_limits<float>::infinity();
  CHECK(search({x.data(), DType::kF32}) == 33'333);
  CHECK(search({bf16_of(x).data(), DType::kBf16}) == 33'333);
  x[0] = std::numeric_limits<float>::infinity();
  CHECK(search({x.data(), DType::kF32}) == 0);
}

TEST_CASE("adamw: three steps agree with f64 and the mirror is the rounded weight") {
  const std::int64_t count = 1003;
  TestValues values(11);
  std::vector<float> w = values.vector(count);
  std::vector<float> m(w.size());
  std::vector<float> v(w.size());
  std::vector<double> w64(w.begin(), w.end());
  std::vector<double> m64(w.size());
  std::vector<double> v64(w.size());
  std::vector<std::uint16_t> mirror(w.size());
  const TestDevice device(2);
  for (int step = 1; step <= 3; ++step) {
    const std::vector<float> g = values.vector(count);
    AdamwArgs args;
    args.weight = w.data();
    args.gradient = g.data();
    args.first_moment = m.data();
    args.second_moment = v.data();
    args.mirror_bf16 = mirror.data();
    args.count = count;
    args.learning_rate = 1e-2F;
    args.beta1 = 0.9F;
    args.beta2 = 0.95F;
    args.epsilon = 1e-8F;
    args.weight_decay = 0.1F;
    args.gradient_scale = 0.5F;
    args.bias_correction1 = static_cast<float>(1 - std::pow(0.9, step));
    args.bias_correction2 = static_cast<float>(1 - std::pow(0.95, step));
    device.operators().adamw(*device.stream, args);
    double worst = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double grad = 0.5 * static_cast<double>(g[i]);
      m64[i] = 0.9 * m64[i] + 0.1 * grad;
      v64[i] = 0.95 * v64[i] + 0.05 * grad * grad;
      const double m_hat = m64[i] / (1 - std::pow(0.9, step));
      const double v_hat = v64[i] / (1 - std::pow(0.95, step));
      w64[i] -= 1e-2 * (m_hat / (std::sqrt(v_hat) + 1e-8) + 0.1 * w64[i]);
      worst = std::max(worst, std::abs(static_cast<double>(w[i]) - w64[i]));
      // The weight hardly depends on the gradient's scale: the moments must be right as well.
      worst = std::max(worst, std::abs(static_cast<double>(m[i]) - m64[i]));
      worst = std::max(worst, std::abs(static_cast<double>(v[i]) - v64[i]));
    }
    CAPTURE(step);
    CHECK(worst < 3e-7);
    CHECK(mirror == bf16_of(w));
  }
}

TEST_CASE("sgd: with and without momentum agrees with f64") {
  const std::int64_t count = 77;
  for (const float momentum : {0.0F, 0.9F}) {
    TestValues values(13);
    std::vector<float> w = values.vector(count);
    std::vector<float> buffer(w.size());
    std::vector<double> w64(w.begin(), w.end());
    std::vector<double> buffer64(w.size());
    std::vector<std::uint16_t> mirror(w.size());
    const TestDevice device;
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> g = values.vector(count);
      SgdArgs args;
      args.weight = w.data();
      args.gradient = g.data();
      args.momentum_buffer = momentum > 0 ? buffer.data() : nullptr;
      args.mirror_bf16 = mirror.data();
      args.count = count;
      args.learning_rate = 0.1F;
      args.momentum = momentum;
      args.weight_decay = 0.01F;
      args.gradient_scale = 2;
      device.operators().sgd(*device.stream, args);
      for (std::size_t i = 0; i < w.size(); ++i) {
        const double grad = 2.0 * static_cast<double>(g[i]) + 0.01 * w64[i];
        buffer64[i] = static_cast<double>(momentum) * buffer64[i] + grad;
        w64[i] -= 0.1 * buffer64[i];
        CHECK(std::abs(static_cast<double>(w[i]) - w64[i]) < 5e-7);
      }
      CHECK(mirror == bf16_of(w));
    }
  }
}

TEST_CASE("fill normal: elements follow Box and Muller over Philox words") {
  const std::int64_t count = 40'003;
  const TestDevice device(2);
  std::vector<float> x(static_cast<std::size_t>(count));
  FillNormalArgs args;
  args.x = x.data();
  args.count = count;
  args.deviation = 1;
  args.key = key_of_seed(42);
  args.sample = 3;
  args.site = make_site(0, RandomUse::kInit);
  device.operators().fill_normal(*device.stream, args);
  const double turn = 2 * std::acos(-1.0);
  double worst = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto words =
        philox4x32(args.key, static_cast<std::uint64_t>(i / 4), args.sample, args.site);
    const auto pair = static_cast<std::size_t>(i % 4 / 2 * 2);
    const double u = ((words[pair] >> 8U) + 1.0) / 16777216.0;
    const double angle = turn * (words[pair + 1] >> 8U) / 16777216.0;
    const double r = std::sqrt(-2 * std::log(u));
    const double exact = r * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    worst = std::max(worst, std::abs(static_cast<double>(x[static_cast<std::size_t>(i)]) - exact));
  }
  CHECK(worst < 1.5e-6);
}

TEST_CASE("fill normal: mean deviation and shape are those of a normal law") {
  const std::int64_t count = 200'000;
  const TestDevice device;
  std::vector<float> x(static_cast<std::size_t>(count));
  FillNormalArgs args;
  args.x = x.data();
  args.count = count;
  args.mean = 1;
  args.deviation = 0.5F;
  args.key = key_of_seed(7);
  device.operators().fill_normal(*device.stream, args);
  double sum = 0;
  double squares = 0;
  std::int64_t beyond = 0;
  for (const float value : x) {
    const double z = (static_cast<double>(value) - 1.0) / 0.5;
    sum += z;
    squares += z * z;
    beyond += std::abs(z) > 1.959964 ? 1 : 0;
  }
  const auto n = static_cast<double>(count);
  CHECK(std::abs(sum / n) < 4 / std::sqrt(n));
  CHECK(std::abs(squares / n - 1) < 4 * std::sqrt(2 / n));
  CHECK(std::abs(static_cast<double>(beyond) / n - 0.05) < 4 * std::sqrt(0.05 * 0.95 / n));
}

TEST_CASE("fill normal: the documented format is golden") {
  // Box and Muller with our logarithm, sine and cosine: the same bits on every machine.
  const std::vector<float> golden = {-0x1.ee07bp-1F,  -0x1.b08014p-3F, 0x1.084b84p+1F,
                                     0x1.1d0676p-1F,  -0x1.8a1c92p-2F, -0x1.c1872ap-2F,
                                     -0x1.ab3054p-1F, 0x1.10ae16p+1F};
  const TestDevice device;
  std::vector<float> x(golden.size());
  FillNormalArgs args;
  args.x = x.data();
  args.count = 8;
  args.key = key_of_seed(42);
  args.sample = 3;
  args.site = make_site(0, RandomUse::kInit);
  device.operators().fill_normal(*device.stream, args);
  CHECK(same_bits(x, golden));
}

TEST_CASE("fill normal: a longer fill begins with the shorter one") {
  const TestDevice device;
  std::vector<float> shorter(19);
  std::vector<float> longer(64);
  FillNormalArgs args;
  args.key = key_of_seed(1);
  args.x = shorter.data();
  args.count = 19;
  device.operators().fill_normal(*device.stream, args);
  args.x = longer.data();
  args.count = 64;
  device.operators().fill_normal(*device.stream, args);
  longer.resize(19);
  CHECK(same_bits(shorter, longer));
}
