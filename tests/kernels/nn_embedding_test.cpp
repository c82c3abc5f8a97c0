// Embedding lookup, its gradient, and dropout.
#include "tests/kernels/nn_support.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::kernels::nn_tests {
namespace {

// The mask by its definition: word e % 4 of block e / 4 of the sample, for element e = t*width + c.
bool kept(const DropoutSite& site, std::int64_t row, std::int64_t column, std::int64_t positions,
          std::int64_t width) {
  const auto element = static_cast<std::uint64_t>(row % positions * width + column);
  const auto sample = site.sample_first + static_cast<std::uint32_t>(row / positions);
  const auto words = philox4x32(site.key, element / 4, sample, site.site);
  return static_cast<double>(words[element % 4]) >=
         std::floor(static_cast<double>(site.probability) * 4294967296.0);
}

DropoutSite some_site(float probability) {
  return {key_of_step(1234, 5, 0), 1000, make_site(3, RandomUse::kMlpDropout), probability};
}

TEST_CASE("embedding kernel: rows are the token plus the position and the gradient gathers them") {
  const std::int64_t batch = 3;
  const std::int64_t positions = 21;
  const std::int64_t width = 68;
  const std::int32_t vocabulary = 11;
  const auto ids = random_ids(batch * positions, vocabulary, 61);
  const Floats token = random_floats(vocabulary * width, 62);
  const Floats position = random_floats(positions * width, 63);
  const Floats dy = random_floats(batch * positions * width, 64);
  Floats dtoken;
  Floats dposition;
  const Floats y = same_bits_everywhere([&](CpuContext& context) {
    Floats out(dy.size());
    embedding_forward(context, {ids.data(),
                                token.data(),
                                position.data(),
                                {out.data(), DType::kF32},
                                batch,
                                positions,
                                width,
                                {}});
    dtoken = token;  // the gradient is added
    dposition = position;
    embedding_backward(context, {ids.data(),
                                 {dy.data(), DType::kF32},
                                 dtoken.data(),
                                 dposition.data(),
                                 batch,
                                 positions,
                                 width,
                                 vocabulary});
    Floats all = out;
    all.insert(all.end(), dtoken.begin(), dtoken.end());
    all.insert(all.end(), dposition.begin(), dposition.end());
    return all;
  });
  // Exact: each output is one fp32 addition, each gradient a chain in ascending row order.
  Floats dtoken_expected = token;
  Floats dposition_expected = position;
  for (std::int64_t row = 0; row < batch * positions; ++row) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(row * width + c);
      const auto from = static_cast<std::size_t>(ids[static_cast<std::size_t>(row)] * width + c);
      const auto place = static_cast<std::size_t>(row % positions * width + c);
      REQUIRE(y[at] == token[from] + position[place]);
      dtoken_expected[from] += dy[at];
      dposition_expected[place] += dy[at];
    }
  }
  CHECK(dtoken == dtoken_expected);
  CHECK(dposition == dposition_expected);
}

TEST_CASE("embedding kernel: without positions and frozen the rest still works") {
  const std::vector<std::int32_t> ids = {2, 0, 2};
  const Floats token = random_floats(15, 65);
  Floats y(15);
  CpuContext context(CpuContextOptions{});
  embedding_forward(context,
                    {ids.data(), token.data(), nullptr, {y.data(), DType::kF32}, 1, 3, 5, {}});
  CHECK(std::equal(y.begin(), y.begin() + 5, token.begin() + 10));
  Floats dtoken(token.size());
  embedding_backward(context,
                     {ids.data(), {y.data(), DType::kF32}, dtoken.data(), nullptr, 1, 3, 5, 3});
  CHECK(dtoken[10] == y[0] + y[10]);
  embedding_backward(context, {ids.data(), {y.data(), DType::kF32}, nullptr, nullptr, 1, 3, 5, 3});
}

void check_masks(std::int64_t batch, std::int64_t positions, std::int64_t width) {
  CAPTURE(width);
  const std::int64_t rows = batch * positions;
  const DropoutSite site = some_site(0.3F);
  const Floats x = random_floats(rows * width, 66);
  const Floats branch(x.size(), 1.0F);
  Floats dx(x.size());
  const Floats y = same_bits_everywhere([&](CpuContext& context) {
    Floats out(x.size());
    residual_forward(context, {{x.data(), DType::kF32},
                               branch.data(),
                               {out.data(), DType::kF32},
                               rows,
                               width,
                               positions,
                               site});
    dropout_backward(
        context,
        {{branch.data(), DType::kF32}, {dx.data(), DType::kF32}, rows, width, positions, site});
    Floats all = out;
    all.insert(all.end(), dx.begin(), dx.end());
    return all;
  });
  const float scale = 1.0F / (1.0F - 0.3F);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = static_cast<std::size_t>(row * width + c);
      const float mask = kept(site, row, c, positions, width) ? scale : 0.0F;
      REQUIRE(dx[at] == mask);
      REQUIRE(y[at] == x[at] + mask);
    }
  }
}

TEST_CASE("dropout kernel: forward and backward use the mask of the scalar Philox") {
  check_masks(2, 3, 272);
  check_masks(2, 5, 33);
  check_masks(1, 2, 1500);
  check_masks(3, 1, 1);
}

TEST_CASE("dropout kernel: the embedding drops the same elements as its backward") {
  const std::int64_t width = 70;
  const auto ids = random_ids(12, 4, 67);
  const Floats token(static_cast<std::size_t>(4 * width), 1.0F);
  const DropoutSite site = some_site(0.5F);
  CpuContext context(CpuContextOptions{});
  Floats y(static_cast<std::size_t>(12 * width));
  embedding_forward(
      context, {ids.data(), token.data(), nullptr, {y.data(), DType::kF32}, 2, 6, width, site});
  const Floats ones(y.size(), 1.0F);
  Floats dx(y.size());
  dropout_backward(context,
                   {{ones.data(), DType::kF32}, {dx.data(), DType::kF32}, 12, width, 6, site});
  CHECK(y == dx);
  CHECK(std::count(y.begin(), y.end(), 2.0F) > 300);
  CHECK(std::count(y.begin(), y.end(), 0.0F) > 300);
}

TEST_CASE("dropout kernel: the mask of a documented site is golden") {
  const DropoutSite site{{0, 0}, 0, 0, 0.5F};
  CpuContext context(CpuContextOptions{});
  const Floats ones(8, 1.0F);
  Floats dx(8);
  dropout_backward(context, {{ones.data(), DType::kF32}, {dx.data(), DType::kF32}, 1, 8, 1, site});
  // Random123's known answer for counter 0 and key 0: 6627e8d5 e169c58d bc57ac4c 9b00dbd8.
  CHECK(std::vector<float>(dx.begin(), dx.begin() + 4) == std::vector<float>{0, 2, 2, 2});
}

TEST_CASE("dropout kernel: probability zero converts and the broken rule follows the calls") {
  const Floats x = random_floats(60, 68);
  std::vector<std::uint16_t> y(x.size());
  CpuContext context(CpuContextOptions{});
  dropout_backward(context, {{x.data(), DType::kF32}, {y.data(), DType::kBf16}, 3, 20, 3, {}});
  CHECK(y == to_bf16(x));
  CpuContextOptions options;
  options.broken_rule = BrokenRule::kDropoutOrder;
  CpuContext broken(options);
  const auto masked = [&](CpuContext& c) {
    Floats dx(x.size());
    dropout_backward(
        c, {{x.data(), DType::kF32}, {dx.data(), DType::kF32}, 3, 20, 3, some_site(0.5F)});
    return dx;
  };
  CHECK(masked(context) == masked(context));
  CHECK(masked(broken) != masked(broken));
}

TEST_CASE("dropout kernel: a bf16 residual stream is rounded once and a NaN stays a NaN") {
  Floats x = random_floats(40, 69);
  x[3] = NAN;
  const auto x16 = to_bf16(x);
  const Floats branch = random_floats(40, 70);
  std::vector<std::uint16_t> y(x.size());
  CpuContext context(CpuContextOptions{});
  residual_forward(
      context, {{x16.data(), DType::kBf16}, branch.data(), {y.data(), DType::kBf16}, 2, 20, 2, {}});
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (i == 3) {
      CHECK(std::isnan(float_of_bf16(y[i])));
    } else {
      CHECK(y[i] == bf16_of(float_of_bf16(x16[i]) + branch[i]));
    }
  }
}

}  // namespace
}  // namespace headrace::kernels::nn_tests
