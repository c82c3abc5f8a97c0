// What a residual branch does between its two linear layers: attention, or an activation.
//
// What it is for: the only part in which the attention and the MLP half of a block differ. What it
// does not do: hold parameters. Thread rule: constant after construction; calls enqueue on
// call.stream.
#pragma once

#include "stages/layer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace headrace::stages {

class BranchCore {
 public:
  virtual ~BranchCore() = default;

  // The core maps inner [n, inner_width] (f32) to out [n, out_width] (the GEMM's dtype).
  [[nodiscard]] virtual std::int64_t inner_width() const = 0;
  [[nodiscard]] virtual std::int64_t out_width() const = 0;
  // Kept F .. I beside inner and out / needed during backward.
  [[nodiscard]] virtual std::int64_t kept_bytes(const MicrobatchShape& shape) const = 0;
  [[nodiscard]] virtual std::int64_t workspace_bytes(const MicrobatchShape& shape) const = 0;
  [[nodiscard]] virtual double forward_flops(const MicrobatchShape& shape) const = 0;

  struct Values {
    float* inner = nullptr;  // forward may change it in place (RoPE)
    kernels::Ref out;
    std::byte* kept = nullptr;
  };
  virtual void forward(const LayerCall& call, const Values& values) const = 0;
  // d_inner (f32 or the GEMM's dtype) from d_out (f32).
  virtual void backward(const LayerCall& call, const Values& values, const float* d_out,
                        kernels::Ref d_inner, std::byte* workspace) const = 0;
};

// Causal attention on q | k | v; with RoPE on q and k when the model is a llama.
[[nodiscard]] std::unique_ptr<BranchCore> make_attention_core(const LayerOptions& options);
// GELU as the model says, or SwiGLU on gate | up when it is a llama.
[[nodiscard]] std::unique_ptr<BranchCore> make_activation_core(const LayerOptions& options);

}  // namespace headrace::stages
