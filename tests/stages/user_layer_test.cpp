#include "tests/stages/pipeline.hpp"
#include "tests/stages/user_layer_example.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>

namespace headrace::stages::test {
namespace {

void ensure_registered() {
  static const Status status = register_residual_linear();
  REQUIRE(status.is_ok());
}

PipelineOptions options_with_user_layer(bool one_stage, Precision precision = Precision::kF32) {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.model.precision = precision;
  std::vector<StageRequest> requests;
  if (one_stage) {
    requests = {{{{"embedding", 1},
                  {"block", 2},
                  {"residual_linear", 2},
                  {"block", 2},
                  {"norm", 1},
                  {"head", 1}}}};
  } else {
    requests = {{{{"embedding", 1}, {"block", 2}}},
                {{{"residual_linear", 1}}},
                {{{"residual_linear", 1}, {"block", 2}, {"norm", 1}, {"head", 1}}}};
  }
  options.partition = requested_partition(options.model, requests).value();
  return options;
}

std::string between_markers(const std::string& text) {
  const std::size_t begin = text.find("// docs: begin\n") + std::string("// docs: begin\n").size();
  return text.substr(begin, text.find("// docs: end") - begin);
}

}  // namespace

TEST_CASE("stages: a kind of the user trains and gives the same bits for every cut") {
  ensure_registered();
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    const bool runs_here =
        precision == Precision::kF32 || kernels::make_cpu_device({})->supports_bf16();
    if (!runs_here) continue;
    Pipeline one(options_with_user_layer(true, precision));
    Pipeline three(options_with_user_layer(false, precision));
    for (std::int64_t s = 1; s <= 3; ++s) {
      const StepResult a = one.step(StepIndex(s));
      const StepResult b = three.step(StepIndex(s));
      CHECK(a.gradients.count("residual_linear.1.bias") == 1);
      CHECK(a.losses == b.losses);
      CHECK(differences(a.gradients, b.gradients) == "");
    }
    CHECK(differences(one.state(), three.state()) == "");
  }
}

TEST_CASE("stages: the slope of the loss along the gradient of a kind of the user is right") {
  ensure_registered();
  Pipeline pipeline(options_with_user_layer(true));
  const StepResult result = pipeline.step(StepIndex(1), false);
  const Tensors weights = pipeline.state();
  double square = 0;
  for (const float g : result.gradients.at("residual_linear.0.weight")) {
    square += static_cast<double>(g) * static_cast<double>(g);
  }
  const double norm = std::sqrt(square);
  const auto loss_at = [&](double distance) {
    std::vector<float> moved = weights.at("residual_linear.0.weight");
    for (std::size_t i = 0; i < moved.size(); ++i) {
      moved[i] +=
          static_cast<float>(distance / norm) * result.gradients.at("residual_linear.0.weight")[i];
    }
    pipeline.set_weight("residual_linear.0.weight", moved);
    double loss = 0;
    for (const double part : pipeline.step(StepIndex(1), false).losses) loss += part;
    return loss / static_cast<double>(pipeline.tokens_per_step());
  };
  const double slope = (loss_at(1e-2) - loss_at(-1e-2)) / 2e-2;
  INFO("slope ", slope, " norm ", norm);
  CHECK(std::abs(slope - norm) < 5e-3 * norm);
}

TEST_CASE("stages: a kind is registered once and unknown kinds name the nearest") {
  ensure_registered();
  const Status twice = register_residual_linear();
  CHECK(twice.code() == StatusCode::kConfig);
  CHECK(twice.message().find("'residual_linear'") != std::string::npos);
  const auto unknown = make_layer({.model = tiny_gpt2(), .spec = {.kind = "blok"}});
  CHECK(unknown.status().code() == StatusCode::kConfig);
  CHECK(unknown.status().message().find("'block'") != std::string::npos);
}

TEST_CASE("stages: docs/LAYERS shows the example as it is compiled") {
  const std::string root = HEADRACE_SOURCE_DIR "/";
  std::ifstream example(root + "tests/stages/user_layer_example.cpp");
  std::ifstream page(root + "docs/LAYERS.md");
  REQUIRE(example.good());
  REQUIRE(page.good());
  std::stringstream code, text;
  code << example.rdbuf();
  text << page.rdbuf();
  CHECK(text.str().find("```cpp\n" + between_markers(code.str()) + "```\n") != std::string::npos);
}

}  // namespace headrace::stages::test
