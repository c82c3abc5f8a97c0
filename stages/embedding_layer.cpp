// The first layer: token rows, plus learned positions unless the model is a llama.
#include "stages/detail/builtin_layers.hpp"
#include "stages/detail/carver.hpp"

namespace headrace::stages {
namespace {

class EmbeddingLayer : public Layer {
 public:
  explicit EmbeddingLayer(const LayerOptions& options)
      : model_(options.model),
        site_(kernels::make_site(static_cast<std::uint32_t>(options.spec.index.value),
                                 kernels::RandomUse::kEmbeddingDropout)) {
    parameters_.push_back({.name = "embedding.token.weight",
                           .shape = {model_.vocabulary, model_.width},
                           .gemm = false});
    if (model_.kind != ModelKind::kLlama) {
      parameters_.push_back({.name = "embedding.position.weight",
                             .shape = {model_.context, model_.width},
                             .gemm = false});
    }
  }

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

  LayerBytes bytes(const MicrobatchShape& shape) const override {
    LayerBytes bytes;
    bytes.weight_backward = aligned_bytes(boundary_bytes(model_, shape));
    return bytes;
  }

  double forward_flops(const MicrobatchShape& shape) const override {
    return static_cast<double>(shape.rows()) * static_cast<double>(model_.width);
  }

  void forward(const LayerCall& call) override {
    kernels::EmbeddingForwardArgs args;
    args.ids = call.inputs;
    args.token = call.parameters[0].weight;
    args.position = parameters_.size() > 1 ? call.parameters[1].weight : nullptr;
    args.y = call.y;
    args.batch = call.shape.batch;
    args.positions = call.shape.positions;
    args.width = model_.width;
    args.dropout = dropout_site(call);
    call.operators.embedding_forward(call.stream, args);
  }

  // There is no input to differentiate; the masked gradient waits for backward_weight.
  void backward_input(const LayerCall& call) override {
    kernels::DropoutBackwardArgs args;
    args.dy = call.dy;
    args.dx = masked(call);
    args.rows = call.shape.rows();
    args.width = model_.width;
    args.positions = call.shape.positions;
    args.dropout = dropout_site(call);
    call.operators.dropout_backward(call.stream, args);
  }

  void backward_weight(const LayerCall& call) override {
    kernels::EmbeddingBackwardArgs args;
    args.ids = call.inputs;
    args.dy = masked(call);
    args.dtoken = call.parameters[0].gradient;
    args.dposition = parameters_.size() > 1 ? call.parameters[1].gradient : nullptr;
    args.batch = call.shape.batch;
    args.positions = call.shape.positions;
    args.width = model_.width;
    args.vocabulary = model_.vocabulary;
    call.operators.embedding_backward(call.stream, args);
  }

 private:
  [[nodiscard]] kernels::Ref masked(const LayerCall& call) const {
    return {call.weight_backward, boundary_dtype(model_)};
  }
  [[nodiscard]] kernels::DropoutSite dropout_site(const LayerCall& call) const {
    const std::int64_t sample = call.microbatch.value * call.shape.batch;
    return {call.step.dropout_key, static_cast<std::uint32_t>(sample), site_, model_.dropout};
  }

  ModelSpec model_;
  std::uint32_t site_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

std::unique_ptr<Layer> make_embedding_layer(const LayerOptions& options) {
  return std::make_unique<EmbeddingLayer>(options);
}

}  // namespace headrace::stages
