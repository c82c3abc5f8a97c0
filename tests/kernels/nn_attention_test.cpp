// Causal attention with grouped heads (Vaswani et al. 2017, Ainslie et al. 2023).
#include "tests/kernels/nn_support.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::kernels::nn_tests {
namespace {

struct Shape {
  std::int64_t batch, positions, heads, kv_heads, width;
  [[nodiscard]] std::int64_t row() const { return (heads + 2 * kv_heads) * width; }
  [[nodiscard]] std::int64_t rows() const { return batch * positions; }
  [[nodiscard]] float scale() const { return 1.0F / std::sqrt(static_cast<float>(width)); }
};

struct Attention {
  Doubles o, lse;
};

// o = softmax(scale q k^T, causal) v, one query at a time.
void attend(const Shape& s, const Doubles& qkv, std::int64_t b, std::int64_t h, std::int64_t t,
            Attention& out) {
  const std::int64_t group = h / (s.heads / s.kv_heads);
  const auto at = [&](std::int64_t position, std::int64_t column) {
    return qkv.data() + (b * s.positions + position) * s.row() + column * s.width;
  };
  const double* q = at(t, h);
  Doubles p(static_cast<std::size_t>(t + 1));
  double largest = -1e300;
  for (std::int64_t j = 0; j <= t; ++j) {
    const double* k = at(j, s.heads + group);
    double score = 0;
    for (std::int64_t d = 0; d < s.width; ++d) score += q[d] * k[d];
    p[static_cast<std::size_t>(j)] = score * static_cast<double>(s.scale());
    largest = std::max(largest, p[static_cast<std::size_t>(j)]);
  }
  double sum = 0;
  for (double& value : p) sum += value = std::exp(value - largest);
  out.lse[static_cast<std::size_t>((b * s.heads + h) * s.positions + t)] = largest + std::log(sum);
  double* o = out.o.data() + ((b * s.positions + t) * s.heads + h) * s.width;
  for (std::int64_t j = 0; j <= t; ++j) {
    const double* v = at(j, s.heads + s.kv_heads + group);
    for (std::int64_t d = 0; d < s.width; ++d) o[d] += p[static_cast<std::size_t>(j)] / sum * v[d];
  }
}

Attention reference(const Shape& s, const Doubles& qkv) {
  Attention out{Doubles(static_cast<std::size_t>(s.rows() * s.heads * s.width)),
                Doubles(static_cast<std::size_t>(s.rows() * s.heads))};
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t t = 0; t < s.positions; ++t) attend(s, qkv, b, h, t, out);
    }
  }
  return out;
}

void forward(CpuContext& context, const Shape& s, const Floats& qkv, Ref o, Floats& lse) {
  lse.resize(static_cast<std::size_t>(s.rows() * s.heads));
  attention_forward(context, {qkv.data(), o, lse.data(), s.batch, s.positions, s.heads, s.kv_heads,
                              s.width, s.scale()});
}

void backward(CpuContext& context, const Shape& s, const Floats& qkv, ConstRef o, const Floats& lse,
              const Floats& d_o, Ref dqkv) {
  std::vector<std::byte> workspace(static_cast<std::size_t>(
      attention_workspace_bytes(s.batch, s.positions, s.heads, s.kv_heads, s.width)));
  AttentionBackwardArgs args;
  args.qkv = qkv.data();
  args.o = o;
  args.lse = lse.data();
  args.d_o = d_o.data();
  args.dqkv = dqkv;
  args.workspace = workspace.data();
  args.batch = s.batch;
  args.positions = s.positions;
  args.heads = s.heads;
  args.kv_heads = s.kv_heads;
  args.head_width = s.width;
  args.scale = s.scale();
  attention_backward(context, args);
}

void check_attention(const Shape& s, int samples) {
  CAPTURE(s.positions);
  CAPTURE(s.heads);
  CAPTURE(s.kv_heads);
  CAPTURE(s.width);
  const Floats qkv = random_floats(s.rows() * s.row(), 41, 2.0F);
  const Floats d_o = random_floats(s.rows() * s.heads * s.width, 42);
  Floats o(d_o.size());
  Floats lse;
  Floats dqkv(qkv.size());
  (void)same_bits_everywhere([&](CpuContext& context) {
    forward(context, s, qkv, {o.data(), DType::kF32}, lse);
    std::fill(dqkv.begin(), dqkv.end(), 77.0F);  // overwritten, not added to
    backward(context, s, qkv, {o.data(), DType::kF32}, lse, d_o, {dqkv.data(), DType::kF32});
    Floats all = o;
    all.insert(all.end(), lse.begin(), lse.end());
    all.insert(all.end(), dqkv.begin(), dqkv.end());
    return all;
  });
  Doubles qkv64 = to_doubles(qkv);
  const Attention expected = reference(s, qkv64);
  check_close("o", o, expected.o, 3e-6, 1e-6);
  check_close("lse", lse, expected.lse, 2e-6, 1e-6);
  const auto loss = [&] {
    const Attention out = reference(s, qkv64);
    double sum = 0;
    for (std::size_t i = 0; i < out.o.size(); ++i) sum += out.o[i] * static_cast<double>(d_o[i]);
    return sum;
  };
  check_gradient("dqkv", qkv64, dqkv, loss, 1e-5, samples);
}

TEST_CASE("attention kernel: causal attention equals its formula and its finite differences") {
  check_attention({2, 1, 2, 2, 16}, 40);
  check_attention({1, 17, 2, 1, 4}, 100);
  check_attention({2, 33, 4, 2, 68}, 60);
  check_attention({1, 64, 1, 1, 32}, 60);
  check_attention({1, 65, 3, 1, 20}, 60);
  check_attention({1, 129, 2, 1, 64}, 40);
}

TEST_CASE("attention kernel: later positions never change earlier outputs") {
  const Shape s{1, 70, 2, 1, 24};
  Floats qkv = random_floats(s.rows() * s.row(), 43);
  CpuContext context(CpuContextOptions{});
  const auto width = static_cast<std::size_t>(s.heads * s.width);
  for (const std::int64_t cut : {1, 16, 63, 64, 69}) {
    Floats before(static_cast<std::size_t>(s.rows()) * width);
    Floats after(before.size());
    Floats lse;
    forward(context, s, qkv, {before.data(), DType::kF32}, lse);
    Floats changed = qkv;
    for (std::size_t i = static_cast<std::size_t>(cut * s.row()); i < changed.size(); ++i) {
      changed[i] += 3.0F;
    }
    forward(context, s, changed, {after.data(), DType::kF32}, lse);
    const auto kept = static_cast<std::size_t>(cut) * width;
    CHECK(std::equal(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(kept),
                     after.begin()));
    CHECK(before.back() != after.back());
  }
}

TEST_CASE("attention kernel: bf16 outputs are the fp32 ones rounded once") {
  const Shape s{1, 40, 2, 1, 20};
  const Floats qkv = random_floats(s.rows() * s.row(), 44);
  const Floats d_o = random_floats(s.rows() * s.heads * s.width, 45);
  CpuContext context(CpuContextOptions{});
  Floats o(d_o.size());
  Floats lse;
  forward(context, s, qkv, {o.data(), DType::kF32}, lse);
  std::vector<std::uint16_t> o16(o.size());
  forward(context, s, qkv, {o16.data(), DType::kBf16}, lse);
  CHECK(o16 == to_bf16(o));
  const Floats rounded = from_bf16(o16);
  Floats dqkv(qkv.size());
  std::vector<std::uint16_t> dqkv16(qkv.size());
  backward(context, s, qkv, {rounded.data(), DType::kF32}, lse, d_o, {dqkv.data(), DType::kF32});
  backward(context, s, qkv, {o16.data(), DType::kBf16}, lse, d_o, {dqkv16.data(), DType::kBf16});
  CHECK(dqkv16 == to_bf16(dqkv));
}

TEST_CASE("attention kernel: large scores stay finite and a NaN query gives a NaN") {
  const Shape s{1, 20, 1, 1, 16};
  Floats qkv = random_floats(s.rows() * s.row(), 46, 300.0F);
  CpuContext context(CpuContextOptions{});
  Floats o(static_cast<std::size_t>(s.rows() * s.width));
  Floats lse;
  forward(context, s, qkv, {o.data(), DType::kF32}, lse);
  CHECK(std::all_of(o.begin(), o.end(), [](float v) { return std::isfinite(v); }));
  qkv[static_cast<std::size_t>(5 * s.row())] = NAN;
  forward(context, s, qkv, {o.data(), DType::kF32}, lse);
  CHECK(std::isnan(o[static_cast<std::size_t>(5 * s.width)]));
  CHECK(std::isfinite(o[static_cast<std::size_t>(4 * s.width)]));
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
