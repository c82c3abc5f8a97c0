// The block of a model: residual branches in a row. gpt2 and llama: attention, MLP; mlp: MLP only.
#include "stages/detail/builtin_layers.hpp"
#include "stages/detail/residual_branch.hpp"

#include <algorithm>
#include <array>

namespace headrace::stages {
namespace {

constexpr std::size_t kBranchesMax = 2;

// [Note: recompute] With ModelSpec::recompute a block keeps nothing from F to I: forward works in
// the workspace; backward_input runs the same kernels on the same input again. The stash then lives
// in the workspace of that one call, and what the weight gradients need lives from I to W. The
// second linear layer of the last branch is not run again: nothing in backward reads it.
class BlockLayer : public Layer {
 public:
  explicit BlockLayer(const LayerOptions& options)
      : width_(options.model.width),
        boundary_(boundary_dtype(options.model)),
        recompute_(options.model.recompute) {
    const std::string prefix = "block." + std::to_string(options.spec.number) + ".";
    const bool llama = options.model.kind == ModelKind::kLlama;
    if (options.model.kind != ModelKind::kMlp) {
      branches_.push_back(std::make_unique<ResidualBranch>(
          options,
          BranchOptions{prefix + "norm1", prefix + "attn.qkv", prefix + "attn.proj",
                        kernels::RandomUse::kAttentionDropout},
          make_attention_core(options), parameters_));
    }
    branches_.push_back(std::make_unique<ResidualBranch>(
        options,
        BranchOptions{prefix + (branches_.empty() ? "norm1" : "norm2"),
                      prefix + (llama ? "mlp.gate_up" : "mlp.up"), prefix + "mlp.down",
                      kernels::RandomUse::kMlpDropout},
        make_activation_core(options), parameters_));
  }

  const std::vector<ParameterSpec>& parameters() const override { return parameters_; }

  LayerBytes bytes(const MicrobatchShape& shape) const override {
    const std::int64_t stash = stash_bytes(shape);
    const std::int64_t forward = forward_bytes(shape);
    LayerBytes bytes;
    bytes.weight_backward = backward_bytes(shape);
    if (recompute_) {
      bytes.weight_backward += forward;
    } else {
      bytes.stash = stash;
      bytes.weight_forward = forward;
    }
    const std::int64_t again_forward = recompute_ ? stash + forward : 0;
    const std::int64_t again_backward = recompute_ ? stash : 0;
    bytes.workspace =
        std::max({again_forward + forward_workspace_bytes(shape),
                  again_backward + backward_workspace_bytes(shape), weight_workspace_bytes()});
    return bytes;
  }

  double forward_flops(const MicrobatchShape& shape) const override {
    double flops = 0;
    for (const auto& branch : branches_) flops += branch->forward_flops(shape);
    return flops;
  }

  void forward(const LayerCall& call) override {
    Carver work(call.workspace);
    Frame frame;
    carve_stash(frame, recompute_ ? work.bytes(stash_bytes(call.shape)) : call.stash, call.shape);
    carve_forward(frame, recompute_ ? work.bytes(forward_bytes(call.shape)) : call.weight_forward,
                  call.shape);
    std::byte* temporary = work.bytes(forward_workspace_bytes(call.shape));
    run_forward(call, frame, temporary);
    const std::size_t last = branches_.size() - 1;
    branches_[last]->forward_output(call, frame.branches[last], input_of(call, frame, last), call.y,
                                    temporary);
  }

  void backward_input(const LayerCall& call) override {
    Carver work(call.workspace);
    Carver kept(call.weight_backward);
    Frame frame;
    carve_stash(frame, recompute_ ? work.bytes(stash_bytes(call.shape)) : call.stash, call.shape);
    carve_forward(frame, recompute_ ? kept.bytes(forward_bytes(call.shape)) : call.weight_forward,
                  call.shape);
    carve_backward(frame, kept.bytes(backward_bytes(call.shape)), call.shape);
    const Temporaries temporary = carve_temporaries(work, call.shape);
    if (recompute_) run_forward(call, frame, temporary.forward);

    kernels::ConstRef dy = call.dy;
    for (std::size_t i = branches_.size(); i-- > 0;) {
      kernels::Ref dx = temporary.d_mid;
      // Where nothing below trains the gradient of x is still computed: the kernel that sums gain
      // and bias makes it anyway.
      if (i == 0) dx = call.dx.data != nullptr ? call.dx : temporary.d_unused;
      branches_[i]->backward_input(call, frame.branches[i], {input_of(call, frame, i), dy, dx},
                                   temporary.branch);
      dy = dx;
    }
  }

  void backward_weight(const LayerCall& call) override {
    Carver kept(call.weight_backward);
    Frame frame;
    carve_forward(frame, recompute_ ? kept.bytes(forward_bytes(call.shape)) : call.weight_forward,
                  call.shape);
    carve_backward(frame, kept.bytes(backward_bytes(call.shape)), call.shape);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      branches_[i]->backward_weight(call, frame.branches[i]);
    }
  }

 private:
  struct Frame {
    std::array<BranchFrame, kBranchesMax> branches;
    kernels::Ref mid;  // f32: between the first and the second branch
  };
  struct Temporaries {
    std::byte* forward = nullptr;
    kernels::Ref d_mid, d_unused;
    std::byte* branch = nullptr;
  };

  std::int64_t carve_stash(Frame& frame, std::byte* base, const MicrobatchShape& shape) const {
    Carver arena(base);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      frame.branches[i].stash = branches_[i]->carve_stash(arena, shape);
    }
    if (branches_.size() > 1) {
      frame.mid = arena.tensor(kernels::DType::kF32, shape.rows() * width_);
    }
    return arena.used();
  }
  std::int64_t carve_forward(Frame& frame, std::byte* base, const MicrobatchShape& shape) const {
    Carver arena(base);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      frame.branches[i].forward = branches_[i]->carve_forward(arena, shape);
    }
    return arena.used();
  }
  std::int64_t carve_backward(Frame& frame, std::byte* base, const MicrobatchShape& shape) const {
    Carver arena(base);
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      frame.branches[i].backward = branches_[i]->carve_backward(arena, shape);
    }
    return arena.used();
  }
  Temporaries carve_temporaries(Carver& arena, const MicrobatchShape& shape) const {
    Temporaries temporary;
    if (recompute_) temporary.forward = arena.bytes(forward_workspace_bytes(shape));
    temporary.d_mid = arena.tensor(kernels::DType::kF32, shape.rows() * width_);
    temporary.d_unused = arena.tensor(boundary_, shape.rows() * width_);
    temporary.branch = arena.bytes(branch_workspace_bytes(shape));
    return temporary;
  }

  std::int64_t stash_bytes(const MicrobatchShape& shape) const {
    Frame frame;
    return carve_stash(frame, nullptr, shape);
  }
  std::int64_t forward_bytes(const MicrobatchShape& shape) const {
    Frame frame;
    return carve_forward(frame, nullptr, shape);
  }
  std::int64_t backward_bytes(const MicrobatchShape& shape) const {
    Frame frame;
    return carve_backward(frame, nullptr, shape);
  }
  std::int64_t forward_workspace_bytes(const MicrobatchShape& shape) const {
    std::int64_t bytes = 0;
    for (const auto& branch : branches_) {
      bytes = std::max(bytes, branch->forward_workspace_bytes(shape));
    }
    return bytes;
  }
  std::int64_t branch_workspace_bytes(const MicrobatchShape& shape) const {
    std::int64_t bytes = 0;
    for (const auto& branch : branches_) {
      bytes = std::max(bytes, branch->backward_workspace_bytes(shape));
    }
    return bytes;
  }
  std::int64_t backward_workspace_bytes(const MicrobatchShape& shape) const {
    Carver arena(nullptr);
    (void)carve_temporaries(arena, shape);
    return arena.used();
  }
  std::int64_t weight_workspace_bytes() const {
    std::int64_t bytes = 0;
    for (const auto& branch : branches_) {
      bytes = std::max(bytes, branch->weight_workspace_bytes());
    }
    return bytes;
  }

  static kernels::ConstRef input_of(const LayerCall& call, const Frame& frame, std::size_t branch) {
    return branch == 0 ? call.x : kernels::ConstRef(frame.mid);
  }

  // All but the output of the last branch.
  void run_forward(const LayerCall& call, const Frame& frame, std::byte* temporary) const {
    for (std::size_t i = 0; i < branches_.size(); ++i) {
      const kernels::ConstRef x = input_of(call, frame, i);
      branches_[i]->forward_core(call, frame.branches[i], x);
      if (i + 1 < branches_.size()) {
        branches_[i]->forward_output(call, frame.branches[i], x, frame.mid, temporary);
      }
    }
  }

  std::int64_t width_;
  kernels::DType boundary_;
  bool recompute_;
  std::vector<ParameterSpec> parameters_;
  std::vector<std::unique_ptr<ResidualBranch>> branches_;
};

}  // namespace

std::unique_ptr<Layer> make_block_layer(const LayerOptions& options) {
  return std::make_unique<BlockLayer>(options);
}

}  // namespace headrace::stages
