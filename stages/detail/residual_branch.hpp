// One residual branch of a block: y = x + dropout(out(core(in(norm(x))))).
//
// What it is for: a block is one or two of these in a row (attention, then MLP); everything but the
// core is the same. What it does not do: know its neighbours; the block lends all memory. Thread
// rule: constant after construction; calls enqueue on call.stream.
#pragma once

#include "stages/detail/branch_core.hpp"
#include "stages/detail/carver.hpp"
#include "stages/detail/linear.hpp"
#include "stages/detail/norm_piece.hpp"
#include "stages/layer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace headrace::stages {

struct BranchOptions {
  std::string norm_name, in_name, out_name;
  kernels::RandomUse dropout_use = kernels::RandomUse::kMlpDropout;
};

// What a branch keeps of one microbatch, one struct per lifetime of layer.hpp.
struct BranchStash {
  NormStatistics statistics;
  float* inner = nullptr;  // output of the first linear layer
  std::byte* core = nullptr;
};
struct BranchWeightForward {
  kernels::Ref normed;  // input of the first linear layer
  kernels::Ref out;     // output of the core: input of the second
};
struct BranchWeightBackward {
  kernels::Ref d_out;    // gradient of the second linear layer's output
  kernels::Ref d_inner;  // gradient of the first's
  NormParts parts;
};
struct BranchFrame {
  BranchStash stash;
  BranchWeightForward forward;
  BranchWeightBackward backward;
};

class ResidualBranch {
 public:
  ResidualBranch(const LayerOptions& layer, const BranchOptions& options,
                 std::unique_ptr<BranchCore> core, std::vector<ParameterSpec>& parameters);

  [[nodiscard]] BranchStash carve_stash(Carver& arena, const MicrobatchShape& shape) const;
  [[nodiscard]] BranchWeightForward carve_forward(Carver& arena,
                                                  const MicrobatchShape& shape) const;
  [[nodiscard]] BranchWeightBackward carve_backward(Carver& arena,
                                                    const MicrobatchShape& shape) const;
  [[nodiscard]] std::int64_t forward_workspace_bytes(const MicrobatchShape& shape) const;
  [[nodiscard]] std::int64_t backward_workspace_bytes(const MicrobatchShape& shape) const;
  [[nodiscard]] std::int64_t weight_workspace_bytes() const;
  [[nodiscard]] double forward_flops(const MicrobatchShape& shape) const;

  // Everything up to the core's output; enough to redo what backward needs.
  void forward_core(const LayerCall& call, const BranchFrame& frame, kernels::ConstRef x) const;
  // The second linear layer, dropout and the sum; after forward_core.
  void forward_output(const LayerCall& call, const BranchFrame& frame, kernels::ConstRef x,
                      kernels::Ref y, std::byte* workspace) const;
  struct Gradients {
    kernels::ConstRef x, dy;
    kernels::Ref dx;
  };
  void backward_input(const LayerCall& call, const BranchFrame& frame, const Gradients& gradients,
                      std::byte* workspace) const;
  void backward_weight(const LayerCall& call, const BranchFrame& frame) const;

 private:
  [[nodiscard]] kernels::DropoutSite dropout_site(const LayerCall& call) const;
  [[nodiscard]] BranchCore::Values core_values(const BranchFrame& frame) const;

  std::int64_t width_;
  kernels::DType gemm_type_;
  float dropout_;
  std::uint32_t site_;
  std::unique_ptr<BranchCore> core_;
  NormPiece norm_;
  Linear in_;
  Linear out_;
};

}  // namespace headrace::stages
