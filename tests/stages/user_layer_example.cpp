// A layer kind that the library does not have, as a user would add it: docs/LAYERS.md shows the
// part between the markers.
#include "tests/stages/user_layer_example.hpp"

// docs: begin
#include "stages/layer.hpp"

namespace {

using namespace headrace;
using namespace headrace::stages;

// y = x + x * weight^T + bias: one linear layer around the residual stream.
class ResidualLinear : public Layer {
 public:
  explicit ResidualLinear(const LayerOptions& options)
      : width_(options.model.width), type_(boundary_dtype(options.model)) {
    const std::string name = "residual_linear." + std::to_string(options.spec.number);
    parameters_ = {{.name = name + ".weight", .shape = {width_, width_}},
                   {.name = name + ".bias", .shape = {width_}, .init = InitKind::kZeros}};
  }

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

  // The weight gradient needs x and dy, which are promised until backward_input only: each is
  // copied into the lifetime that starts where it is known and ends with backward_weight.
  LayerBytes bytes(const MicrobatchShape& shape) const override {
    const std::int64_t elements = shape.rows() * width_;
    const auto size = static_cast<std::int64_t>(kernels::bytes_of(type_));
    const auto float_size = static_cast<std::int64_t>(sizeof(float));
    return {.weight_forward = elements * size,
            .weight_backward = elements * size,
            .workspace = elements * float_size};
  }

  double forward_flops(const MicrobatchShape& shape) const override {
    return 2.0 * static_cast<double>(shape.rows() * width_ * width_);
  }

  void forward(const LayerCall& call) override {
    const kernels::Ref x{call.weight_forward, type_};
    call.operators.convert(call.stream, call.x, x, call.shape.rows() * width_);
    kernels::MatmulArgs product = matmul_of(call, x);
    product.transpose_b = true;
    product.bias = call.parameters[1].weight;
    call.operators.matmul(call.stream, product);
    add_residual(call, call.x, call.y);
  }

  void backward_input(const LayerCall& call) override {
    const kernels::Ref dy{call.weight_backward, type_};
    call.operators.convert(call.stream, call.dy, dy, call.shape.rows() * width_);
    if (call.dx.data == nullptr) return;  // nothing below trains
    call.operators.matmul(call.stream, matmul_of(call, dy));
    add_residual(call, call.dy, call.dx);
  }

  // Adds into the gradients; the stage calls it in ascending order of microbatches.
  void backward_weight(const LayerCall& call) override {
    const kernels::ConstRef x{call.weight_forward, type_};
    const kernels::ConstRef dy{call.weight_backward, type_};
    kernels::MatmulArgs product;
    product.a = dy;
    product.b = x;
    product.c = {call.parameters[0].gradient, kernels::DType::kF32};
    product.rows = product.cols = width_;
    product.inner = call.shape.rows();
    product.transpose_a = product.accumulate = true;
    call.operators.matmul(call.stream, product);
    call.operators.column_sum(
        call.stream,
        {.x = dy, .sum = call.parameters[1].gradient, .rows = call.shape.rows(), .cols = width_});
  }

 private:
  // workspace [n,C] = a [n,C] * weight
  kernels::MatmulArgs matmul_of(const LayerCall& call, kernels::ConstRef a) const {
    kernels::MatmulArgs product;
    product.a = a;
    product.b = call.parameters[0].gemm;
    product.c = {call.workspace, kernels::DType::kF32};
    product.rows = call.shape.rows();
    product.cols = product.inner = width_;
    return product;
  }

  // to = from + workspace
  void add_residual(const LayerCall& call, kernels::ConstRef from, kernels::Ref to) const {
    kernels::ResidualForwardArgs sum;
    sum.x = from;
    sum.branch = static_cast<const float*>(static_cast<const void*>(call.workspace));
    sum.y = to;
    sum.rows = call.shape.rows();
    sum.width = width_;
    sum.positions = call.shape.positions;
    call.operators.residual_forward(call.stream, sum);
  }

  std::int64_t width_;
  kernels::DType type_;
  std::vector<ParameterSpec> parameters_;
};

}  // namespace

// Call once, before the first model is built.
headrace::Status register_residual_linear() {
  return register_layer_kind("residual_linear", [](const LayerOptions& options) {
    return std::make_unique<ResidualLinear>(options);
  });
}
// docs: end
