// Gradients of every parameter of every layer kind against central differences of a model written
// again in double precision.
#include "tests/stages/pipeline.hpp"
#include "tests/stages/reference_model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace headrace::stages::test {
namespace {

// Larger weights than the initial ones, so that no nonlinearity is nearly linear.
void randomise(Pipeline& pipeline, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> value(-0.5F, 0.5F);
  for (const auto& [name, values] : pipeline.state()) {
    if (name.find('#') != std::string::npos) continue;
    std::vector<float> drawn(values.size());
    const bool gain = name.find("norm") != std::string::npos && name.ends_with(".weight");
    for (float& v : drawn) v = value(generator) + (gain ? 1.0F : 0.0F);
    pipeline.set_weight(name, drawn);
  }
}

Weights in_double(const Tensors& state) {
  Weights weights;
  for (const auto& [name, values] : state) {
    if (name.find('#') == std::string::npos) weights[name].assign(values.begin(), values.end());
  }
  return weights;
}

ReferenceBatch batch_of(const std::vector<std::int32_t>& tokens, const MicrobatchShape& shape) {
  ReferenceBatch batch;
  batch.positions = shape.positions;
  const auto positions = static_cast<std::size_t>(shape.positions);
  for (std::size_t first = 0; first < tokens.size(); first += positions + 1) {
    ++batch.sequences;
    for (std::size_t t = 0; t < positions; ++t) {
      batch.inputs.push_back(tokens[first + t]);
      batch.targets.push_back(tokens[first + t + 1]);
    }
  }
  return batch;
}

// Largest error of the stage's gradient of any element, relative to the largest element.
void check_model_gradients(ModelSpec model) {
  model.layers = 2;
  PipelineOptions options;
  options.model = model;
  options.microbatches = 2;
  Pipeline pipeline(options);
  INFO("weights from seed 11, tokens from seed 23");
  randomise(pipeline, 11);
  const auto tokens = random_tokens(24, model.vocabulary, 23);
  pipeline.set_tokens(tokens);
  ReferenceBatch batch = batch_of(tokens, options.shape);
  batch.targets[3] = -1;
  batch.targets[10] = -1;
  pipeline.set_targets(batch.targets);
  const StepResult result = pipeline.step(StepIndex(1), /*update=*/false);

  Weights weights = in_double(pipeline.state());
  const auto scale = static_cast<double>(pipeline.tokens_per_step());
  const double loss = reference_loss(model, weights, batch);
  CHECK(std::abs(result.losses[0] + result.losses[1] - loss) < 1e-5 * loss);
  REQUIRE(result.gradients.size() == weights.size());
  for (auto& [name, values] : weights) {
    const std::vector<float>& gradient = result.gradients.at(name);
    double worst = 0, largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      constexpr double kStep = 1e-5;
      const double kept = values[i];
      values[i] = kept + kStep;
      const double above = reference_loss(model, weights, batch);
      values[i] = kept - kStep;
      const double below = reference_loss(model, weights, batch);
      values[i] = kept;
      const double expected = (above - below) / (2 * kStep) / scale;
      worst = std::max(worst, std::abs(expected - static_cast<double>(gradient[i])));
      largest = std::max(largest, std::abs(expected));
    }
    const std::string& parameter = name;  // clang 14: a binding cannot be captured
    INFO(parameter, " worst ", worst, " largest ", largest);
    CHECK(largest > 1e-4);
    CHECK(worst < 2e-5 * largest + 1e-7);
  }
}

}  // namespace

TEST_CASE("stages: gpt2 gradients equal central differences in double precision") {
  check_model_gradients(tiny_gpt2());
}

TEST_CASE("stages: gpt2 with a tied head has the gradient of both ends in one") {
  ModelSpec model = tiny_gpt2();
  model.tied = true;
  check_model_gradients(model);
}

TEST_CASE("stages: llama with grouped heads equals central differences in double precision") {
  check_model_gradients(tiny_llama());
}

TEST_CASE("stages: mlp gradients equal central differences in double precision") {
  check_model_gradients(tiny_mlp());
}

// bf16 keeps 8 bits of every factor; the gradient keeps its direction and its length.
TEST_CASE("stages: bf16 gradients point where the fp32 ones do") {
  if (!kernels::make_cpu_device({})->supports_bf16()) {
    MESSAGE("skipped: this device has no bf16 matrix product");
    return;
  }
  std::vector<ModelSpec> kinds{tiny_gpt2(), tiny_llama(), tiny_mlp()};
  kinds.push_back(tiny_gpt2());
  kinds.back().tied = true;
  for (const ModelSpec& model : kinds) {
    PipelineOptions options;
    options.model = model;
    INFO("weights from seed 29");
    Pipeline exact(options);
    randomise(exact, 29);
    options.model.precision = Precision::kBf16;
    Pipeline rounded(options);
    randomise(rounded, 29);
    const StepResult a = exact.step(StepIndex(1), false);
    const StepResult b = rounded.step(StepIndex(1), false);
    CHECK(b.losses[0] == doctest::Approx(a.losses[0]).epsilon(0.02));
    CHECK(b.losses[0] != a.losses[0]);
    double aa = 0, bb = 0, ab = 0;
    for (const auto& [name, gradient] : a.gradients) {
      for (std::size_t i = 0; i < gradient.size(); ++i) {
        const double x = static_cast<double>(gradient[i]);
        const double y = static_cast<double>(b.gradients.at(name)[i]);
        aa += x * x;
        bb += y * y;
        ab += x * y;
      }
    }
    INFO("cosine ", ab / std::sqrt(aa * bb), " length ", std::sqrt(bb / aa));
    CHECK(ab / std::sqrt(aa * bb) > 0.995);
    CHECK(std::sqrt(bb / aa) == doctest::Approx(1).epsilon(0.03));
  }
}

// The masks are the same in every evaluation, so the loss stays differentiable.
TEST_CASE("stages: with dropout the slope along the gradient is its square norm") {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.model.dropout = 0.3F;
  Pipeline pipeline(options);
  INFO("weights from seed 19");
  randomise(pipeline, 19);
  const StepResult result = pipeline.step(StepIndex(4), /*update=*/false);
  const Tensors weights = pipeline.state();
  const auto loss_at = [&](double distance) {
    for (const auto& [name, gradient] : result.gradients) {
      std::vector<float> moved = weights.at(name);
      for (std::size_t i = 0; i < moved.size(); ++i) {
        moved[i] += static_cast<float>(distance / result.norm) * gradient[i];
      }
      pipeline.set_weight(name, moved);
    }
    double loss = 0;
    for (const double part : pipeline.step(StepIndex(4), /*update=*/false).losses) loss += part;
    return loss / static_cast<double>(pipeline.tokens_per_step());
  };
  const double slope = (loss_at(5e-3) - loss_at(-5e-3)) / 1e-2;
  INFO("slope ", slope, " norm ", result.norm);
  CHECK(std::abs(slope - result.norm) < 2e-3 * result.norm);
}

}  // namespace headrace::stages::test
