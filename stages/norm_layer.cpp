// The normalisation between the last block and the head.
#include "stages/detail/builtin_layers.hpp"
#include "stages/detail/norm_piece.hpp"

namespace headrace::stages {
namespace {

class NormLayer : public Layer {
 public:
  explicit NormLayer(const LayerOptions& options)
      : width_(options.model.width),
        boundary_(boundary_dtype(options.model)),
        norm_({"norm", width_, options.model.kind == ModelKind::kLlama}, parameters_) {}

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

  LayerBytes bytes(const MicrobatchShape& shape) const override {
    Carver stash(nullptr), kept(nullptr), work(nullptr);
    (void)norm_.carve_statistics(stash, shape.rows());
    (void)norm_.carve_parts(kept);
    (void)work.tensor(boundary_, shape.rows() * width_);
    LayerBytes bytes;
    bytes.stash = stash.used();
    bytes.weight_backward = kept.used();
    bytes.workspace = work.used();
    return bytes;
  }

  double forward_flops(const MicrobatchShape& shape) const override {
    return norm_.forward_flops(shape.rows());
  }

  void forward(const LayerCall& call) override {
    Carver stash(call.stash);
    norm_.forward(call, call.x, call.y, norm_.carve_statistics(stash, call.shape.rows()));
  }

  void backward_input(const LayerCall& call) override {
    Carver stash(call.stash), kept(call.weight_backward), work(call.workspace);
    NormPiece::Backward backward;
    backward.x = call.x;
    backward.dy = call.dy;
    backward.dx =
        call.dx.data != nullptr ? call.dx : work.tensor(boundary_, call.shape.rows() * width_);
    backward.statistics = norm_.carve_statistics(stash, call.shape.rows());
    backward.parts = norm_.carve_parts(kept);
    norm_.backward_input(call, backward);
  }

  void backward_weight(const LayerCall& call) override {
    Carver kept(call.weight_backward);
    norm_.backward_weight(call, norm_.carve_parts(kept));
  }

 private:
  std::int64_t width_;
  kernels::DType boundary_;
  std::vector<ParameterSpec> parameters_;
  NormPiece norm_;
};

}  // namespace

std::unique_ptr<Layer> make_norm_layer(const LayerOptions& options) {
  return std::make_unique<NormLayer>(options);
}

}  // namespace headrace::stages
