#include "stages/model.hpp"

#include "stages/layer.hpp"

#include <set>

namespace headrace::stages {
namespace {

Status require(bool holds, const std::string& message) {
  return holds ? Status::ok() : Status(StatusCode::kConfig, "model: " + message);
}

std::string quoted(const char* name, std::int64_t value) {
  return std::string(name) + " " + std::to_string(value);
}

}  // namespace

std::int64_t ParameterSpec::count() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

std::vector<LayerSpec> layer_list(const ModelSpec& model) {
  std::vector<LayerSpec> layers;
  const auto append = [&](const char* kind, std::int64_t number) {
    layers.push_back({.kind = kind,
                      .index = LayerIndex(static_cast<std::int32_t>(layers.size())),
                      .number = number});
  };
  append("embedding", 0);
  for (std::int64_t block = 0; block < model.layers; ++block) append("block", block);
  append("norm", 0);
  append("head", 0);
  return layers;
}

Status check_model(const ModelSpec& model) {
  HEADRACE_RETURN_IF_ERROR(require(model.layers >= 0, quoted("layers", model.layers) + " < 0"));
  HEADRACE_RETURN_IF_ERROR(require(model.width > 0, quoted("width", model.width) + " < 1"));
  HEADRACE_RETURN_IF_ERROR(require(model.hidden > 0, quoted("hidden", model.hidden) + " < 1"));
  HEADRACE_RETURN_IF_ERROR(require(model.context > 0, quoted("context", model.context) + " < 1"));
  HEADRACE_RETURN_IF_ERROR(
      require(model.vocabulary > 0, quoted("vocabulary", model.vocabulary) + " < 1"));
  HEADRACE_RETURN_IF_ERROR(
      require(model.dropout >= 0 && model.dropout < 1,
              "dropout " + std::to_string(model.dropout) + " is not in [0, 1)"));
  if (model.kind == ModelKind::kMlp) return Status::ok();
  HEADRACE_RETURN_IF_ERROR(
      require(model.heads > 0 && model.width % model.heads == 0,
              quoted("heads", model.heads) + " does not divide " + quoted("width", model.width)));
  HEADRACE_RETURN_IF_ERROR(require(
      model.kv_heads == 0 || (model.kv_heads > 0 && model.heads % model.kv_heads == 0),
      quoted("kv_heads", model.kv_heads) + " does not divide " + quoted("heads", model.heads)));
  return require(model.kind != ModelKind::kLlama || model.width / model.heads % 2 == 0,
                 "RoPE turns pairs, but the head width " +
                     std::to_string(model.width / model.heads) + " is odd");
}

kernels::DType boundary_dtype(const ModelSpec& model) {
  return model.precision == Precision::kBf16 ? kernels::DType::kBf16 : kernels::DType::kF32;
}

std::int64_t boundary_bytes(const ModelSpec& model, const MicrobatchShape& shape) {
  return shape.rows() * model.width *
         static_cast<std::int64_t>(kernels::bytes_of(boundary_dtype(model)));
}

std::int64_t parameter_count(const ModelSpec& model) {
  std::set<std::string> counted;
  std::int64_t elements = 0;
  for (const LayerSpec& spec : layer_list(model)) {
    const auto layer = make_layer({.model = model, .spec = spec});
    HEADRACE_CHECK(layer.is_ok(), layer.status().message());
    for (const ParameterSpec& parameter : (*layer)->parameters()) {
      if (counted.insert(parameter.name).second) elements += parameter.count();
    }
  }
  return elements;
}

}  // namespace headrace::stages
