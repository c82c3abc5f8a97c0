// Softmax cross-entropy with ignored rows.
#include "tests/kernels/nn_support.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::kernels::nn_tests {
namespace {

double reference(std::int64_t vocabulary, const Doubles& logits,
                 const std::vector<std::int32_t>& targets) {
  double loss = 0;
  for (std::size_t row = 0; row < targets.size(); ++row) {
    if (targets[row] < 0) continue;
    const double* l = logits.data() + static_cast<std::int64_t>(row) * vocabulary;
    const double largest = *std::max_element(l, l + vocabulary);
    double sum = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) sum += std::exp(l[v] - largest);
    loss += largest + std::log(sum) - l[targets[row]];
  }
  return loss;
}

struct Run {
  double loss = 77;
  Floats lse, dlogits;
};

Run run(CpuContext& context, std::int64_t vocabulary, const Floats& logits,
        const std::vector<std::int32_t>& targets, float scale) {
  Run r;
  r.lse.resize(targets.size());
  r.dlogits.assign(logits.size(), 77.0F);
  const auto rows = static_cast<std::int64_t>(targets.size());
  cross_entropy_forward(context,
                        {logits.data(), targets.data(), r.lse.data(), &r.loss, rows, vocabulary});
  cross_entropy_backward(context, {logits.data(),
                                   targets.data(),
                                   r.lse.data(),
                                   {r.dlogits.data(), DType::kF32},
                                   scale,
                                   rows,
                                   vocabulary});
  return r;
}

Floats with_loss_bits(const Run& r) {
  Floats all = r.dlogits;
  all.insert(all.end(), r.lse.begin(), r.lse.end());
  const auto high = static_cast<float>(r.loss);
  all.push_back(high);
  all.push_back(static_cast<float>(r.loss - static_cast<double>(high)));
  return all;
}

void check_cross_entropy(std::int64_t rows, std::int32_t vocabulary) {
  CAPTURE(rows);
  CAPTURE(vocabulary);
  const Floats logits = random_floats(rows * vocabulary, 51, 5.0F);
  auto targets = random_ids(rows, vocabulary, 52);
  for (std::size_t row = 2; row < targets.size(); row += 3) targets[row] = -1;
  Run last;
  (void)same_bits_everywhere([&](CpuContext& context) {
    last = run(context, vocabulary, logits, targets, 0.25F);
    return with_loss_bits(last);
  });
  Doubles logits64 = to_doubles(logits);
  const double expected = reference(vocabulary, logits64, targets);
  CHECK(std::abs(last.loss - expected) <= 1e-6 * (1.0 + expected));
  for (std::size_t row = 2; row < targets.size(); row += 3) {
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      REQUIRE(
          last.dlogits[row * static_cast<std::size_t>(vocabulary) + static_cast<std::size_t>(v)] ==
          0.0F);
    }
  }
  check_gradient(
      "dlogits", logits64, last.dlogits,
      [&] { return 0.25 * reference(vocabulary, logits64, targets); }, 2e-6, 120);
}

TEST_CASE("cross-entropy kernel: loss and gradient equal the formula and finite differences") {
  check_cross_entropy(1, 2);
  check_cross_entropy(7, 1031);
  check_cross_entropy(600, 33);
}

TEST_CASE("cross-entropy kernel: a batch of ignored rows has loss and gradient exactly zero") {
  const Floats logits = random_floats(200, 53, 9.0F);
  const std::vector<std::int32_t> targets(5, -1);
  CpuContext context(CpuContextOptions{});
  const Run r = run(context, 40, logits, targets, 1.0F);
  CHECK(r.loss == 0.0);
  CHECK(std::all_of(r.dlogits.begin(), r.dlogits.end(), [](float d) { return d == 0.0F; }));
}

TEST_CASE("cross-entropy kernel: bf16 and in-place gradients equal the fp32 ones") {
  Floats logits = random_floats(450, 54, 4.0F);
  auto targets = random_ids(9, 50, 55);
  targets[4] = -1;
  CpuContext context(CpuContextOptions{});
  const Run r = run(context, 50, logits, targets, 2.0F);
  std::vector<std::uint16_t> dlogits16(logits.size());
  cross_entropy_backward(
      context,
      {logits.data(), targets.data(), r.lse.data(), {dlogits16.data(), DType::kBf16}, 2.0F, 9, 50});
  CHECK(dlogits16 == to_bf16(r.dlogits));
  cross_entropy_backward(
      context,
      {logits.data(), targets.data(), r.lse.data(), {logits.data(), DType::kF32}, 2.0F, 9, 50});
  CHECK(logits == r.dlogits);
}

TEST_CASE("cross-entropy kernel: a NaN logit gives a NaN loss and gradient") {
  Floats logits = random_floats(60, 56);
  logits[7] = NAN;
  CpuContext context(CpuContextOptions{});
  const Run r = run(context, 30, logits, {3, 4}, 1.0F);
  CHECK(std::isnan(r.loss));
  CHECK(std::isnan(r.dlogits[0]));
  CHECK(std::isfinite(r.dlogits[30]));
}

TEST_CASE("cross-entropy kernel: probabilities are within two units over the range of fp32") {
  const std::int64_t vocabulary = 20011;
  Floats logits(static_cast<std::size_t>(vocabulary));
  for (std::size_t v = 0; v < logits.size(); ++v) logits[v] = -0.005F * static_cast<float>(v);
  CpuContext context(CpuContextOptions{});
  const Run r = run(context, vocabulary, logits, {1}, 1.0F);
  double worst = 0;
  for (std::size_t v = 2; v < logits.size(); ++v) {
    const float shifted = logits[v] - r.lse[0];
    const double expected = shifted < -87.0F ? 0.0 : std::exp(static_cast<double>(shifted));
    const double error = std::abs(static_cast<double>(r.dlogits[v]) - expected);
    worst = std::max(worst, error / (expected == 0 ? 1e-300 : expected));
  }
  CHECK(worst <= 1.5 * 1.2e-7);
  CHECK(r.dlogits.back() == 0.0F);
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
