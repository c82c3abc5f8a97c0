// A model as a list of layers, and what one microbatch of it looks like.
//
// What it is for: everything about a model that does not depend on how it is cut into stages.
// What it does not do: hold weights. Thread rule: values; distinct objects are independent.
#pragma once

#include "kernels/dtype.hpp"
#include "kernels/operators.hpp"
#include "runtime/base/ids.hpp"
#include "runtime/base/status.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::stages {

enum class ModelKind { kGpt2, kLlama, kMlp };
enum class Precision { kF32, kBf16 };

struct ModelSpec {
  ModelKind kind = ModelKind::kGpt2;
  std::int64_t layers = 0;      // transformer blocks
  std::int64_t width = 0;       // C
  std::int64_t heads = 0;       // H (ignored by mlp)
  std::int64_t kv_heads = 0;    // G; 0 = heads
  std::int64_t hidden = 0;      // MLP width, > 0
  std::int64_t context = 0;     // T
  std::int64_t vocabulary = 0;  // V
  float dropout = 0;
  bool tied = false;  // the head uses the embedding's token matrix
  kernels::Activation activation = kernels::Activation::kGeluTanh;  // gpt2, mlp
  double rope_base = 10000.0;                                       // llama
  Precision precision = Precision::kF32;
  bool recompute = false;  // per block: keep only the block's input from F to I
  std::uint64_t seed = 1;
};

// One entry of the model's layer list: `embedding`, block 0..L-1, `norm`, `head`, or a registered
// kind.
struct LayerSpec {
  std::string kind;         // a name in the layer registry
  LayerIndex index{0};      // global layer number: its place in the list, also its Philox layer
  std::int64_t number = 0;  // n-th of its kind: block 7 -> 7
  bool frozen = false;      // no weight gradient, no update
};

// embedding, blocks, norm, head: L + 3 layers.
[[nodiscard]] std::vector<LayerSpec> layer_list(const ModelSpec& model);

// kConfig when the sizes do not fit each other (heads into width, kv_heads into heads, ...).
[[nodiscard]] Status check_model(const ModelSpec& model);

// Place of a layer's k-th parameter in the global order: layer order, then declaration order. It
// depends on nothing but the layer's own number, so that every stage knows it of its own layers.
inline constexpr std::int64_t kParametersPerLayerMax = 256;
[[nodiscard]] constexpr std::int64_t parameter_order(LayerIndex layer, std::size_t k) {
  return layer.value * kParametersPerLayerMax + static_cast<std::int64_t>(k);
}

// The microbatch every layer sees: batch sequences of context positions.
struct MicrobatchShape {
  std::int64_t batch = 0;      // B, sequences per microbatch
  std::int64_t positions = 0;  // T
  [[nodiscard]] std::int64_t rows() const { return batch * positions; }
};

// dtype of the residual stream at every block boundary, and so of every link.
[[nodiscard]] kernels::DType boundary_dtype(const ModelSpec& model);
[[nodiscard]] std::int64_t boundary_bytes(const ModelSpec& model, const MicrobatchShape& shape);
// Elements over all parameters; a tied matrix counts once (GPT-2 small: 124,439,808).
[[nodiscard]] std::int64_t parameter_count(const ModelSpec& model);

}  // namespace headrace::stages
