#include "stages/detail/branch_core.hpp"

namespace headrace::stages {
namespace {

class ActivationCore : public BranchCore {
 public:
  explicit ActivationCore(const LayerOptions& options)
      : kind_(options.model.kind == ModelKind::kLlama ? kernels::Activation::kSwiglu
                                                      : options.model.activation),
        width_(options.model.hidden) {}

  std::int64_t inner_width() const override {
    return kind_ == kernels::Activation::kSwiglu ? 2 * width_ : width_;
  }
  std::int64_t out_width() const override { return width_; }
  std::int64_t kept_bytes(const MicrobatchShape&) const override { return 0; }
  std::int64_t workspace_bytes(const MicrobatchShape&) const override { return 0; }
  double forward_flops(const MicrobatchShape& shape) const override {
    constexpr double kFlopsPerElement = 16;
    return kFlopsPerElement * static_cast<double>(shape.rows()) * static_cast<double>(width_);
  }

  void forward(const LayerCall& call, const Values& values) const override {
    kernels::ActivationForwardArgs args;
    args.kind = kind_;
    args.x = values.inner;
    args.y = values.out;
    args.rows = call.shape.rows();
    args.width = width_;
    call.operators.activation_forward(call.stream, args);
  }

  void backward(const LayerCall& call, const Values& values, const float* d_out,
                kernels::Ref d_inner, std::byte*) const override {
    kernels::ActivationBackwardArgs args;
    args.kind = kind_;
    args.x = values.inner;
    args.dy = d_out;
    args.dx = d_inner;
    args.rows = call.shape.rows();
    args.width = width_;
    call.operators.activation_backward(call.stream, args);
  }

 private:
  kernels::Activation kind_;
  std::int64_t width_;
};

}  // namespace

std::unique_ptr<BranchCore> make_activation_core(const LayerOptions& options) {
  return std::make_unique<ActivationCore>(options);
}

}  // namespace headrace::stages
