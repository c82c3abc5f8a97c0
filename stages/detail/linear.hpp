// A linear layer as a piece of other layers: y[n,out] = x[n,in] * weight[out,in]^T (+ bias[out]).
//
// What it is for: the three GEMMs and the bias sums in one place. What it does not do: keep x or dy
// (its owner does). Thread rule: constant after declare(); calls enqueue on call.stream.
#pragma once

#include "stages/layer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::stages {

struct LinearOptions {
  std::string name;  // `block.7.attn.qkv`; `.weight` and `.bias` are appended
  std::int64_t in = 0, out = 0;
  bool bias = true;
  float deviation = 0.02F;
  BrokenRule broken_rule = BrokenRule::kNone;
};

class Linear {
 public:
  // Appends its parameters to the layer's list, whose order LayerCall::parameters follows.
  Linear(const LinearOptions& options, std::vector<ParameterSpec>& parameters);

  void forward(const LayerCall& call, kernels::ConstRef x, kernels::Ref y) const;
  void backward_input(const LayerCall& call, kernels::ConstRef dy, kernels::Ref dx) const;
  // Adds into the gradients of weight and bias. Uses weight_workspace_bytes() of call.workspace.
  void backward_weight(const LayerCall& call, kernels::ConstRef x, kernels::ConstRef dy) const;

  [[nodiscard]] std::int64_t weight_workspace_bytes() const;
  [[nodiscard]] double forward_flops(std::int64_t rows) const;

 private:
  LinearOptions options_;
  std::size_t weight_index_;
};

}  // namespace headrace::stages
