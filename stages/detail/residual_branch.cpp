#include "stages/detail/residual_branch.hpp"

#include <cmath>

namespace headrace::stages {
namespace {

constexpr float kDeviation = 0.02F;

// GPT-2's rule: the 2 L branches that add into the residual stream start smaller by sqrt(2 L).
float residual_deviation(std::int64_t layers) {
  return static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(layers)));
}

LinearOptions linear_options(const LayerOptions& layer, const std::string& name, std::int64_t in,
                             std::int64_t out, float deviation) {
  return {.name = name,
          .in = in,
          .out = out,
          .bias = layer.model.kind != ModelKind::kLlama,
          .deviation = deviation,
          .broken_rule = layer.broken_rule};
}

}  // namespace

ResidualBranch::ResidualBranch(const LayerOptions& layer, const BranchOptions& options,
                               std::unique_ptr<BranchCore> core,
                               std::vector<ParameterSpec>& parameters)
    : width_(layer.model.width),
      gemm_type_(boundary_dtype(layer.model)),
      dropout_(layer.model.dropout),
      site_(kernels::make_site(static_cast<std::uint32_t>(layer.spec.index.value),
                               options.dropout_use)),
      core_(std::move(core)),
      norm_({options.norm_name, width_, layer.model.kind == ModelKind::kLlama}, parameters),
      in_(linear_options(layer, options.in_name, width_, core_->inner_width(), kDeviation),
          parameters),
      out_(linear_options(layer, options.out_name, core_->out_width(), width_,
                          residual_deviation(layer.model.layers)),
           parameters) {}

BranchStash ResidualBranch::carve_stash(Carver& arena, const MicrobatchShape& shape) const {
  BranchStash stash;
  stash.statistics = norm_.carve_statistics(arena, shape.rows());
  stash.inner = arena.array<float>(shape.rows() * core_->inner_width());
  stash.core = arena.bytes(core_->kept_bytes(shape));
  return stash;
}

BranchWeightForward ResidualBranch::carve_forward(Carver& arena,
                                                  const MicrobatchShape& shape) const {
  BranchWeightForward forward;
  forward.normed = arena.tensor(gemm_type_, shape.rows() * width_);
  forward.out = arena.tensor(gemm_type_, shape.rows() * core_->out_width());
  return forward;
}

BranchWeightBackward ResidualBranch::carve_backward(Carver& arena,
                                                    const MicrobatchShape& shape) const {
  BranchWeightBackward backward;
  backward.d_out = arena.tensor(gemm_type_, shape.rows() * width_);
  backward.d_inner = arena.tensor(gemm_type_, shape.rows() * core_->inner_width());
  backward.parts = norm_.carve_parts(arena);
  return backward;
}

std::int64_t ResidualBranch::forward_workspace_bytes(const MicrobatchShape& shape) const {
  Carver arena(nullptr);
  (void)arena.array<float>(shape.rows() * width_);
  return arena.used();
}

std::int64_t ResidualBranch::backward_workspace_bytes(const MicrobatchShape& shape) const {
  Carver arena(nullptr);
  (void)arena.array<float>(shape.rows() * core_->out_width());
  (void)arena.array<float>(shape.rows() * width_);
  (void)arena.bytes(core_->workspace_bytes(shape));
  return arena.used();
}

std::int64_t ResidualBranch::weight_workspace_bytes() const {
  return std::max(in_.weight_workspace_bytes(), out_.weight_workspace_bytes());
}

double ResidualBranch::forward_flops(const MicrobatchShape& shape) const {
  return norm_.forward_flops(shape.rows()) + in_.forward_flops(shape.rows()) +
         core_->forward_flops(shape) + out_.forward_flops(shape.rows());
}

kernels::DropoutSite ResidualBranch::dropout_site(const LayerCall& call) const {
  const std::int64_t sample = call.microbatch.value * call.shape.batch;
  return {call.step.dropout_key, static_cast<std::uint32_t>(sample), site_, dropout_};
}

BranchCore::Values ResidualBranch::core_values(const BranchFrame& frame) const {
  return {frame.stash.inner, frame.forward.out, frame.stash.core};
}

void ResidualBranch::forward_core(const LayerCall& call, const BranchFrame& frame,
                                  kernels::ConstRef x) const {
  norm_.forward(call, x, frame.forward.normed, frame.stash.statistics);
  in_.forward(call, frame.forward.normed, {frame.stash.inner, kernels::DType::kF32});
  core_->forward(call, core_values(frame));
}

void ResidualBranch::forward_output(const LayerCall& call, const BranchFrame& frame,
                                    kernels::ConstRef x, kernels::Ref y,
                                    std::byte* workspace) const {
  Carver arena(workspace);
  auto* branch = arena.array<float>(call.shape.rows() * width_);
  out_.forward(call, frame.forward.out, {branch, kernels::DType::kF32});
  kernels::ResidualForwardArgs args;
  args.x = x;
  args.branch = branch;
  args.y = y;
  args.rows = call.shape.rows();
  args.width = width_;
  args.positions = call.shape.positions;
  args.dropout = dropout_site(call);
  call.operators.residual_forward(call.stream, args);
}

void ResidualBranch::backward_input(const LayerCall& call, const BranchFrame& frame,
                                    const Gradients& gradients, std::byte* workspace) const {
  Carver arena(workspace);
  auto* d_core = arena.array<float>(call.shape.rows() * core_->out_width());
  auto* d_normed = arena.array<float>(call.shape.rows() * width_);
  std::byte* core_workspace = arena.bytes(core_->workspace_bytes(call.shape));

  kernels::DropoutBackwardArgs mask;
  mask.dy = gradients.dy;
  mask.dx = frame.backward.d_out;
  mask.rows = call.shape.rows();
  mask.width = width_;
  mask.positions = call.shape.positions;
  mask.dropout = dropout_site(call);
  call.operators.dropout_backward(call.stream, mask);

  out_.backward_input(call, frame.backward.d_out, {d_core, kernels::DType::kF32});
  core_->backward(call, core_values(frame), d_core, frame.backward.d_inner, core_workspace);
  in_.backward_input(call, frame.backward.d_inner, {d_normed, kernels::DType::kF32});

  NormPiece::Backward norm;
  norm.x = gradients.x;
  norm.dy = {d_normed, kernels::DType::kF32};
  norm.residual = gradients.dy;
  norm.dx = gradients.dx;
  norm.statistics = frame.stash.statistics;
  norm.parts = frame.backward.parts;
  norm_.backward_input(call, norm);
}

void ResidualBranch::backward_weight(const LayerCall& call, const BranchFrame& frame) const {
  norm_.backward_weight(call, frame.backward.parts);
  in_.backward_weight(call, frame.forward.normed, frame.backward.d_inner);
  out_.backward_weight(call, frame.forward.out, frame.backward.d_out);
}

}  // namespace headrace::stages
