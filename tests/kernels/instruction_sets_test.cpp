#include "tests/kernels/instruction_sets.hpp"

#include "tests/kernels/cpu_test_device.hpp"

#include <doctest/doctest.h>

#include <functional>

using namespace headrace;
using namespace headrace::kernels;
using namespace headrace::kernels::test;

namespace {

using Values = std::vector<float>;
using Run = std::function<Values(Operators&, Stream&, std::int64_t count)>;

void expect_equal_bits(const Run& run) {
  for (const std::int64_t count : {1, 8, 15, 16, 17, 100, 66'001}) {
    CAPTURE(count);
    Values first;
    int sets = 0;
    for_each_instruction_set([&](const char* name, bool is_first) {
      const TestDevice device;
      const Values result = run(device.operators(), *device.stream, count);
      CAPTURE(name);
      if (is_first) first = result;
      CHECK(same_bits(result, first));
      ++sets;
    });
    REQUIRE(sets >= 1);
  }
}

}  // namespace

TEST_CASE("instruction sets: adamw and sgd give equal bits") {
  expect_equal_bits([](Operators& operators, Stream& stream, std::int64_t count) {
    TestValues values(3);
    Values w = values.vector(count);
    Values m = values.vector(count);
    Values v = values.vector(count);
    for (float& value : v) value = value * value;
    const Values g = values.vector(count);
    AdamwArgs args;
    args.weight = w.data();
    args.gradient = g.data();
    args.first_moment = m.data();
    args.second_moment = v.data();
    args.count = count;
    args.learning_rate = 1e-3F;
    args.beta1 = 0.9F;
    args.beta2 = 0.999F;
    args.epsilon = 1e-8F;
    args.weight_decay = 0.1F;
    args.gradient_scale = 0.7F;
    operators.adamw(stream, args);
    SgdArgs sgd{w.data(), g.data(), m.data(), nullptr, count, 0.1F, 0.9F, 0.01F, 0.3F};
    operators.sgd(stream, sgd);
    w.insert(w.end(), m.begin(), m.end());
    w.insert(w.end(), v.begin(), v.end());
    return w;
  });
}

TEST_CASE("instruction sets: sums conversions and normal deviates give equal bits") {
  expect_equal_bits([](Operators& operators, Stream& stream, std::int64_t count) {
    Values x(static_cast<std::size_t>(count));
    operators.fill_normal(stream, FillNormalArgs{x.data(), count, 0.5F, 2.0F, {1, 2}, 3, 4});
    double squares = 0;
    operators.sum_squares(stream, SumSquaresArgs{x.data(), count, &squares});
    std::vector<std::uint16_t> narrow(x.size());
    operators.convert(stream, {x.data(), DType::kF32}, {narrow.data(), DType::kBf16}, count);
    Values sums(5);
    operators.column_sum(stream, ColumnSumArgs{{x.data(), DType::kF32}, sums.data(), count / 5, 5});
    float halves[2];
    std::memcpy(halves, &squares, sizeof(squares));
    x.insert(x.end(), halves, halves + 2);
    x.insert(x.end(), sums.begin(), sums.end());
    for (const std::uint16_t value : narrow) x.push_back(f32_of(value));
    return x;
  });
}
