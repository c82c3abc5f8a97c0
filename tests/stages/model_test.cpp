#include "stages/model.hpp"

#include "stages/layer.hpp"
#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace headrace::stages::test {
namespace {

ModelSpec gpt2_small() {
  ModelSpec model;
  model.layers = 12;
  model.width = 768;
  model.heads = 12;
  model.hidden = 3072;
  model.context = 1024;
  model.vocabulary = 50257;
  model.tied = true;
  return model;
}

std::vector<std::string> names_of(const ModelSpec& model, std::size_t layer) {
  const auto built = make_layer({.model = model, .spec = layer_list(model)[layer]});
  std::vector<std::string> names;
  for (const ParameterSpec& parameter : (*built)->parameters()) names.push_back(parameter.name);
  return names;
}

}  // namespace

TEST_CASE("model: GPT-2 small has 124439808 parameters") {
  CHECK(parameter_count(gpt2_small()) == 124'439'808);
  ModelSpec untied = gpt2_small();
  untied.tied = false;
  CHECK(parameter_count(untied) == 124'439'808 + 50257 * 768);
}

TEST_CASE("model: a llama counts gains - grouped heads - gate and up") {
  const ModelSpec model = tiny_llama();
  // C=16, H=4, G=2, D=4, F=20, V=11, L=4.
  const std::int64_t c = 16, h = 4, g = 2, d = 4, f = 20;
  const std::int64_t block = c + (h + 2 * g) * d * c + c * c + c + 2 * f * c + f * c;
  CHECK(parameter_count(model) == 11 * c + 4 * block + c + 11 * c);
}

TEST_CASE("model: parameters have the documented names and order") {
  using Names = std::vector<std::string>;
  CHECK(names_of(tiny_gpt2(), 0) == Names{"embedding.token.weight", "embedding.position.weight"});
  CHECK(names_of(tiny_gpt2(), 3) ==
        Names{"block.2.norm1.weight", "block.2.norm1.bias", "block.2.attn.qkv.weight",
              "block.2.attn.qkv.bias", "block.2.attn.proj.weight", "block.2.attn.proj.bias",
              "block.2.norm2.weight", "block.2.norm2.bias", "block.2.mlp.up.weight",
              "block.2.mlp.up.bias", "block.2.mlp.down.weight", "block.2.mlp.down.bias"});
  CHECK(names_of(tiny_gpt2(), 5) == Names{"norm.weight", "norm.bias"});
  CHECK(names_of(tiny_gpt2(), 6) == Names{"head.weight"});
  CHECK(names_of(tiny_llama(), 0) == Names{"embedding.token.weight"});
  CHECK(names_of(tiny_llama(), 1) ==
        Names{"block.0.norm1.weight", "block.0.attn.qkv.weight", "block.0.attn.proj.weight",
              "block.0.norm2.weight", "block.0.mlp.gate_up.weight", "block.0.mlp.down.weight"});
  CHECK(names_of(tiny_mlp(), 1) == Names{"block.0.norm1.weight", "block.0.norm1.bias",
                                         "block.0.mlp.up.weight", "block.0.mlp.up.bias",
                                         "block.0.mlp.down.weight", "block.0.mlp.down.bias"});
}

TEST_CASE("model: sizes that do not fit are refused with the numbers") {
  const auto message = [](auto change) {
    ModelSpec model = tiny_llama();
    change(model);
    return check_model(model).message();
  };
  CHECK(check_model(tiny_llama()).is_ok());
  CHECK(message([](ModelSpec& m) { m.heads = 3; }) == "model: heads 3 does not divide width 16");
  CHECK(message([](ModelSpec& m) { m.kv_heads = 3; }) ==
        "model: kv_heads 3 does not divide heads 4");
  CHECK(message([](ModelSpec& m) { m.heads = m.kv_heads = 16; }) ==
        "model: RoPE turns pairs, but the head width 1 is odd");
  CHECK(message([](ModelSpec& m) { m.hidden = 0; }) == "model: hidden 0 < 1");
  CHECK(message([](ModelSpec& m) { m.vocabulary = -1; }) == "model: vocabulary -1 < 1");
  CHECK(message([](ModelSpec& m) { m.dropout = 1; }).find("[0, 1)") != std::string::npos);
}

TEST_CASE("model: initial weights have the documented spread") {
  ModelSpec model = tiny_gpt2();
  model.width = 64;
  model.hidden = 256;
  PipelineOptions options;
  options.model = model;
  Pipeline pipeline(options);
  const Tensors state = pipeline.state();
  const auto deviation = [&](const std::string& name) {
    double square = 0;
    for (const float v : state.at(name)) square += static_cast<double>(v) * static_cast<double>(v);
    return std::sqrt(square / static_cast<double>(state.at(name).size()));
  };
  CHECK(deviation("block.0.attn.qkv.weight") == doctest::Approx(0.02).epsilon(0.05));
  CHECK(deviation("block.3.mlp.up.weight") == doctest::Approx(0.02).epsilon(0.05));
  CHECK(deviation("block.3.mlp.down.weight") ==
        doctest::Approx(0.02 / std::sqrt(8.0)).epsilon(0.05));
  CHECK(deviation("block.1.attn.proj.weight") ==
        doctest::Approx(0.02 / std::sqrt(8.0)).epsilon(0.05));
  CHECK(deviation("norm.weight") == 1.0);
  CHECK(deviation("norm.bias") == 0.0);
  CHECK(deviation("block.2.attn.qkv.bias") == 0.0);
  // No two matrices start alike.
  CHECK(state.at("block.0.mlp.up.weight") != state.at("block.1.mlp.up.weight"));
}

}  // namespace headrace::stages::test
