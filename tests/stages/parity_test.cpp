// Loss curves of tiny models against PyTorch: same weights, same tokens, 20 steps of AdamW with
// warm-up, cosine decay and an active clip. tests/parity/train_reference.py wrote the golden file.
#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

namespace headrace::stages::test {
namespace {

constexpr std::int64_t kSteps = 20;
constexpr std::int64_t kSequences = 4;

// The 32-bit finaliser of MurmurHash3, as in train_reference.py.
std::uint32_t hash32(std::uint32_t value) {
  value ^= value >> 16;
  value *= 0x85EBCA6BU;
  value ^= value >> 13;
  value *= 0xC2B2AE35U;
  return value ^ value >> 16;
}

ModelSpec parity_model(ModelKind kind) {
  ModelSpec model;
  model.kind = kind;
  model.layers = 3;
  model.width = 32;
  model.heads = 4;
  model.kv_heads = kind == ModelKind::kLlama ? 2 : 4;
  model.hidden = 96;
  model.context = 16;
  model.vocabulary = 61;
  return model;
}

PipelineOptions parity_options(ModelKind kind) {
  PipelineOptions options;
  options.model = parity_model(kind);
  options.shape = {2, 16};
  options.microbatches = 2;
  options.partition = split(options.model, 2);
  options.optimizer.learning_rate = 1e-2;
  options.optimizer.warmup_steps = 5;
  options.optimizer.decay_steps = kSteps;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.clip_norm = 1;
  return options;
}

void set_initial_weights(Pipeline& pipeline) {
  std::uint32_t place = 0;
  for (std::size_t s = 0; s < pipeline.stages(); ++s) {
    for (const ParameterSpec& parameter : pipeline.stage(s).parameters()) {
      const bool gain =
          parameter.name.find("norm") != std::string::npos && parameter.name.ends_with(".weight");
      std::vector<float> values(static_cast<std::size_t>(parameter.count()));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t hash = hash32(place * 1000003U + static_cast<std::uint32_t>(i));
        values[i] = static_cast<float>((gain ? 1.0 : 0.0) + (hash / 4294967296.0 - 0.5) * 0.25);
      }
      pipeline.set_weight(parameter.name, values);
      ++place;
    }
  }
}

std::vector<std::int32_t> tokens_of(std::int64_t step, const ModelSpec& model) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t sequence = 0; sequence < kSequences; ++sequence) {
    const std::uint32_t start =
        hash32(static_cast<std::uint32_t>(77 + step * kSequences + sequence));
    const std::int64_t stride = 1 + start / 64 % 3;
    for (std::int64_t t = 0; t <= model.context; ++t) {
      tokens.push_back(
          static_cast<std::int32_t>((start % model.vocabulary + stride * t) % model.vocabulary));
    }
  }
  return tokens;
}

std::vector<double> golden(const std::string& kind, const std::string& type) {
  std::ifstream file(std::string(HEADRACE_SOURCE_DIR "/") + "tests/parity/train_golden.txt");
  REQUIRE(file.good());
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string line_kind, line_type;
    words >> line_kind >> line_type;
    if (line_kind != kind || line_type != type) continue;
    std::vector<double> losses;
    for (double loss = 0; words >> loss;) losses.push_back(loss);
    REQUIRE(losses.size() == static_cast<std::size_t>(kSteps));
    return losses;
  }
  FAIL("no golden curve of " << kind << " " << type);
  return {};
}

void check_curve(ModelKind kind, const std::string& name) {
  Pipeline pipeline(parity_options(kind));
  set_initial_weights(pipeline);
  std::vector<double> losses;
  double largest_norm = 0;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    pipeline.set_tokens(tokens_of(step, parity_model(kind)));
    const StepResult result = pipeline.step(StepIndex(step));
    losses.push_back((result.losses[0] + result.losses[1]) /
                     static_cast<double>(pipeline.tokens_per_step()));
    largest_norm = std::max(largest_norm, result.norm);
  }
  CHECK(largest_norm > 1.0);  // else the clip was never tested
  for (const std::string type : {"float32", "float64"}) {
    const std::vector<double> expected = golden(name, type);
    double worst = 0;
    for (std::size_t s = 0; s < losses.size(); ++s) {
      worst = std::max(worst, std::abs(losses[s] - expected[s]) / expected[s]);
    }
    MESSAGE(name << " against PyTorch " << type << ": largest relative difference " << worst);
    CHECK(worst < 1e-5);
  }
  CHECK(losses.back() < 0.9 * losses.front());
}

}  // namespace

TEST_CASE("stages: gpt2 follows the loss curve of PyTorch over 20 steps") {
  check_curve(ModelKind::kGpt2, "gpt2");
}

TEST_CASE("stages: llama follows the loss curve of PyTorch over 20 steps") {
  check_curve(ModelKind::kLlama, "llama");
}

}  // namespace headrace::stages::test
