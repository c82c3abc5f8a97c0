#include "stages/detail/linear.hpp"

namespace headrace::stages {

Linear::Linear(const LinearOptions& options, std::vector<ParameterSpec>& parameters)
    : options_(options), weight_index_(parameters.size()) {
  parameters.push_back({.name = options_.name + ".weight",
                        .shape = {options_.out, options_.in},
                        .init = InitKind::kNormal,
                        .deviation = options_.deviation});
  if (options_.bias) {
    parameters.push_back(
        {.name = options_.name + ".bias", .shape = {options_.out}, .init = InitKind::kZeros});
  }
}

void Linear::forward(const LayerCall& call, kernels::ConstRef x, kernels::Ref y) const {
  kernels::MatmulArgs args;
  args.a = x;
  args.b = call.parameters[weight_index_].gemm;
  args.c = y;
  args.rows = call.shape.rows();
  args.cols = options_.out;
  args.inner = options_.in;
  args.transpose_b = true;
  args.bias = options_.bias ? call.parameters[weight_index_ + 1].weight : nullptr;
  call.operators.matmul(call.stream, args);
}

void Linear::backward_input(const LayerCall& call, kernels::ConstRef dy, kernels::Ref dx) const {
  kernels::MatmulArgs args;
  args.a = dy;
  args.b = call.parameters[weight_index_].gemm;
  args.c = dx;
  args.rows = call.shape.rows();
  args.cols = options_.in;
  args.inner = options_.out;
  call.operators.matmul(call.stream, args);
}

void Linear::backward_weight(const LayerCall& call, kernels::ConstRef x,
                             kernels::ConstRef dy) const {
  float* gradient = call.parameters[weight_index_].gradient;
  kernels::MatmulArgs args;
  args.a = dy;
  args.b = x;
  args.c = {gradient, kernels::DType::kF32};
  args.rows = options_.out;
  args.cols = options_.in;
  args.inner = call.shape.rows();
  args.transpose_a = true;
  args.accumulate = true;
  if (options_.broken_rule == BrokenRule::kFinishedSums) {
    // The mutation of [Note: one way to add]: the sum is finished aside and added afterwards.
    auto* aside = static_cast<float*>(static_cast<void*>(call.workspace));
    args.c.data = aside;
    args.accumulate = false;
    call.operators.matmul(call.stream, args);
    call.operators.add(call.stream, gradient, aside, gradient, options_.out * options_.in);
  } else {
    call.operators.matmul(call.stream, args);
  }
  if (!options_.bias) return;
  kernels::ColumnSumArgs bias;
  bias.x = dy;
  bias.sum = call.parameters[weight_index_ + 1].gradient;
  bias.rows = call.shape.rows();
  bias.cols = options_.out;
  call.operators.column_sum(call.stream, bias);
}

std::int64_t Linear::weight_workspace_bytes() const {
  const bool aside = options_.broken_rule == BrokenRule::kFinishedSums;
  return aside ? options_.out * options_.in * static_cast<std::int64_t>(sizeof(float)) : 0;
}

double Linear::forward_flops(std::int64_t rows) const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(options_.in) *
         static_cast<double>(options_.out);
}

}  // namespace headrace::stages
