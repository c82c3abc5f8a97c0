// LayerNorm and RMSNorm against the formulas of Ba et al. (2016) and Zhang & Sennrich (2019).
#include "tests/kernels/nn_support.hpp"

#include <cmath>

namespace headrace::kernels::nn_tests {
namespace {

struct Norm {
  std::int64_t rows, width;
  bool rms;
  double epsilon = 1e-5;
};

// y = (x - mean) / sqrt(var + eps) * gain + bias, one row at a time.
Doubles reference(const Norm& norm, const Doubles& x, const Doubles& gain, const Doubles& bias) {
  Doubles y(x.size());
  const auto width = static_cast<std::size_t>(norm.width);
  for (std::size_t row = 0; row < static_cast<std::size_t>(norm.rows); ++row) {
    const double* in = x.data() + row * width;
    double mean = 0;
    for (std::size_t c = 0; c < width; ++c) mean += in[c] / static_cast<double>(width);
    if (norm.rms) mean = 0;
    double variance = 0;
    for (std::size_t c = 0; c < width; ++c) {
      variance += (in[c] - mean) * (in[c] - mean) / static_cast<double>(width);
    }
    for (std::size_t c = 0; c < width; ++c) {
      const double normed = (in[c] - mean) / std::sqrt(variance + norm.epsilon);
      y[row * width + c] = normed * gain[c] + (norm.rms ? 0.0 : bias[c]);
    }
  }
  return y;
}

struct Run {
  Floats y, mean, rstd, dx, dgain, dbias;
};

Run run(CpuContext& context, const Norm& norm, const Floats& x, const Floats& gain,
        const Floats& bias, const Floats& dy, const Floats* residual) {
  Run r;
  r.y.resize(x.size());
  r.dx.resize(x.size());
  r.mean.resize(static_cast<std::size_t>(norm.rows));
  r.rstd.resize(static_cast<std::size_t>(norm.rows));
  r.dgain.assign(gain.size(), 77.0F);  // overwritten, not added to
  r.dbias.assign(gain.size(), 77.0F);
  NormForwardArgs f;
  f.x = {x.data(), DType::kF32};
  f.gain = gain.data();
  f.bias = norm.rms ? nullptr : bias.data();
  f.y = {r.y.data(), DType::kF32};
  f.mean = norm.rms ? nullptr : r.mean.data();
  f.rstd = r.rstd.data();
  f.rows = norm.rows;
  f.width = norm.width;
  norm_forward(context, f);
  NormBackwardArgs b;
  b.x = f.x;
  b.dy = {dy.data(), DType::kF32};
  b.gain = gain.data();
  b.mean = f.mean;
  b.rstd = r.rstd.data();
  if (residual != nullptr) b.residual = {residual->data(), DType::kF32};
  b.dx = {r.dx.data(), DType::kF32};
  b.dgain_part = r.dgain.data();
  b.dbias_part = norm.rms ? nullptr : r.dbias.data();
  b.rows = norm.rows;
  b.width = norm.width;
  norm_backward(context, b);
  return r;
}

Floats joined(const Run& r) {
  Floats all = r.y;
  for (const Floats* part : {&r.mean, &r.rstd, &r.dx, &r.dgain, &r.dbias}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

void check_norm(const Norm& norm) {
  CAPTURE(norm.rows);
  CAPTURE(norm.width);
  CAPTURE(norm.rms);
  const Floats x = random_floats(norm.rows * norm.width, 1, 3.0F);
  const Floats gain = random_floats(norm.width, 2);
  const Floats bias = random_floats(norm.width, 3);
  const Floats dy = random_floats(norm.rows * norm.width, 4);
  Run last;
  (void)same_bits_everywhere([&](CpuContext& context) {
    last = run(context, norm, x, gain, bias, dy, nullptr);
    return joined(last);
  });
  Doubles x64 = to_doubles(x);
  Doubles gain64 = to_doubles(gain);
  Doubles bias64 = to_doubles(bias);
  check_close("y", last.y, reference(norm, x64, gain64, bias64), 2e-6, 2e-6);
  const auto loss = [&] {
    const Doubles y = reference(norm, x64, gain64, bias64);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(dy[i]);
    return sum;
  };
  check_gradient("dx", x64, last.dx, loss, 1e-5);
  check_gradient("dgain", gain64, last.dgain, loss, 2e-5);
  if (!norm.rms) check_gradient("dbias", bias64, last.dbias, loss, 2e-5);
}

TEST_CASE("norm kernel: LayerNorm equals its formula and its finite differences") {
  check_norm({1, 1, false});
  check_norm({3, 272, false});
  check_norm({260, 33, false});
  check_norm({521, 16, false});
}

TEST_CASE("norm kernel: RMSNorm equals its formula and its finite differences") {
  check_norm({1, 7, true});
  check_norm({5, 272, true});
  check_norm({300, 68, true});
}

TEST_CASE("norm kernel: the residual gradient is added and bf16 is rounded once") {
  const Norm norm{37, 68, false};
  const Floats x = from_bf16(to_bf16(random_floats(norm.rows * norm.width, 5, 2.0F)));
  const Floats gain = random_floats(68, 6);
  const Floats bias = random_floats(68, 7);
  const Floats dy = from_bf16(to_bf16(random_floats(norm.rows * norm.width, 8)));
  const Floats residual = from_bf16(to_bf16(random_floats(norm.rows * norm.width, 9)));
  const auto x16 = to_bf16(x);
  const auto dy16 = to_bf16(dy);
  const auto residual16 = to_bf16(residual);
  (void)same_bits_everywhere([&](CpuContext& context) {
    const Run plain = run(context, norm, x, gain, bias, dy, nullptr);
    const Run added = run(context, norm, x, gain, bias, dy, &residual);
    for (std::size_t i = 0; i < x.size(); ++i) {
      REQUIRE(added.dx[i] == plain.dx[i] + residual[i]);
    }
    std::vector<std::uint16_t> y16(x.size());
    std::vector<std::uint16_t> dx16(x.size());
    Floats mean(37);
    Floats rstd(37);
    norm_forward(context, {{x16.data(), DType::kBf16},
                           gain.data(),
                           bias.data(),
                           {y16.data(), DType::kBf16},
                           mean.data(),
                           rstd.data(),
                           norm.rows,
                           norm.width,
                           1e-5F});
    CHECK(y16 == to_bf16(added.y));
    NormBackwardArgs b;
    b.x = {x16.data(), DType::kBf16};
    b.dy = {dy16.data(), DType::kBf16};
    b.gain = gain.data();
    b.mean = mean.data();
    b.rstd = rstd.data();
    b.residual = {residual16.data(), DType::kBf16};
    b.dx = {dx16.data(), DType::kBf16};
    b.rows = norm.rows;
    b.width = norm.width;
    norm_backward(context, b);
    CHECK(dx16 == to_bf16(added.dx));
    return added.dx;
  });
}

TEST_CASE("norm kernel: parts follow 256-row blocks unless the rule is broken") {
  const Norm norm{700, 48, false};
  const Floats x = random_floats(norm.rows * norm.width, 10, 3.0F);
  const Floats gain = random_floats(norm.width, 11);
  const Floats dy = random_floats(norm.rows * norm.width, 12);
  const auto gain_part = [&](int threads, BrokenRule rule) {
    CpuContextOptions options;
    options.threads = threads;
    options.broken_rule = rule;
    CpuContext context(options);
    return run(context, norm, x, gain, gain, dy, nullptr).dgain;
  };
  CHECK(gain_part(1, BrokenRule::kNone) == gain_part(3, BrokenRule::kNone));
  CHECK(gain_part(1, BrokenRule::kTokenBlocks) != gain_part(3, BrokenRule::kTokenBlocks));
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
