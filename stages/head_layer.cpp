// The last layer: logits of every position and their summed cross-entropy. No bias. With a tied
// model its matrix is the embedding's.
#include "stages/detail/builtin_layers.hpp"
#include "stages/detail/carver.hpp"
#include "stages/detail/linear.hpp"

namespace headrace::stages {
namespace {

class HeadLayer : public Layer {
 public:
  explicit HeadLayer(const LayerOptions& options)
      : width_(options.model.width),
        vocabulary_(options.model.vocabulary),
        gemm_type_(boundary_dtype(options.model)),
        linear_({.name = options.model.tied ? "embedding.token" : "head",
                 .in = options.model.width,
                 .out = options.model.vocabulary,
                 .bias = false,
                 .broken_rule = options.broken_rule},
                parameters_) {}

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

  LayerBytes bytes(const MicrobatchShape& shape) const override {
    Carver stash(nullptr), forward(nullptr), backward(nullptr);
    (void)carve_stash(stash, shape);
    (void)carve_input(forward, shape);
    (void)carve_d_logits(backward, shape);
    LayerBytes bytes;
    bytes.stash = stash.used();
    bytes.weight_forward = forward.used();
    bytes.weight_backward = backward.used();
    bytes.workspace = aligned_bytes(linear_.weight_workspace_bytes());
    return bytes;
  }

  double forward_flops(const MicrobatchShape& shape) const override {
    constexpr double kLossFlopsPerLogit = 16;
    return linear_.forward_flops(shape.rows()) + kLossFlopsPerLogit *
                                                     static_cast<double>(shape.rows()) *
                                                     static_cast<double>(vocabulary_);
  }

  void forward(const LayerCall& call) override {
    Carver stash_arena(call.stash), forward_arena(call.weight_forward);
    const Stash stash = carve_stash(stash_arena, call.shape);
    const kernels::Ref input = carve_input(forward_arena, call.shape);
    // The input is promised until backward_input only, the weight gradient needs it longer.
    call.operators.convert(call.stream, call.x, input, call.shape.rows() * width_);
    linear_.forward(call, input, {stash.logits, kernels::DType::kF32});
    kernels::CrossEntropyForwardArgs args;
    args.logits = stash.logits;
    args.targets = call.targets;
    args.lse = stash.lse;
    args.loss_sum = call.loss_sum;
    args.rows = call.shape.rows();
    args.vocabulary = vocabulary_;
    call.operators.cross_entropy_forward(call.stream, args);
  }

  void backward_input(const LayerCall& call) override {
    Carver stash_arena(call.stash), backward_arena(call.weight_backward);
    const Stash stash = carve_stash(stash_arena, call.shape);
    const kernels::Ref d_logits = carve_d_logits(backward_arena, call.shape);
    kernels::CrossEntropyBackwardArgs args;
    args.logits = stash.logits;
    args.targets = call.targets;
    args.lse = stash.lse;
    args.dlogits = d_logits;
    args.scale = call.step.loss_scale;
    args.rows = call.shape.rows();
    args.vocabulary = vocabulary_;
    call.operators.cross_entropy_backward(call.stream, args);
    if (call.dx.data != nullptr) linear_.backward_input(call, d_logits, call.dx);
  }

  void backward_weight(const LayerCall& call) override {
    Carver forward_arena(call.weight_forward), backward_arena(call.weight_backward);
    linear_.backward_weight(call, carve_input(forward_arena, call.shape),
                            carve_d_logits(backward_arena, call.shape));
  }

 private:
  struct Stash {
    float* logits = nullptr;
    float* lse = nullptr;
  };
  Stash carve_stash(Carver& arena, const MicrobatchShape& shape) const {
    Stash stash;
    stash.logits = arena.array<float>(shape.rows() * vocabulary_);
    stash.lse = arena.array<float>(shape.rows());
    return stash;
  }
  kernels::Ref carve_input(Carver& arena, const MicrobatchShape& shape) const {
    return arena.tensor(gemm_type_, shape.rows() * width_);
  }
  kernels::Ref carve_d_logits(Carver& arena, const MicrobatchShape& shape) const {
    return arena.tensor(gemm_type_, shape.rows() * vocabulary_);
  }

  std::int64_t width_, vocabulary_;
  kernels::DType gemm_type_;
  std::vector<ParameterSpec> parameters_;
  Linear linear_;
};

}  // namespace

std::unique_ptr<Layer> make_head_layer(const LayerOptions& options) {
  return std::make_unique<HeadLayer>(options);
}

}  // namespace headrace::stages
