#include "stages/detail/branch_core.hpp"
#include "stages/detail/carver.hpp"

#include <cmath>

namespace headrace::stages {
namespace {

// Cosines and sines of RoPE, [T, D/2] each; built once per block.
struct RopeTable {
  kernels::Buffer cosine, sine;
};

RopeTable make_rope_table(kernels::Device& device, std::int64_t positions, std::int64_t head_width,
                          double base) {
  const auto bytes = static_cast<std::size_t>(positions * head_width / 2) * sizeof(float);
  RopeTable table{device.allocate(bytes), device.allocate(bytes)};
  kernels::RopeTableArgs args;
  args.cosine = table.cosine.as<float>();
  args.sine = table.sine.as<float>();
  args.positions = positions;
  args.head_width = head_width;
  args.base = base;
  const auto stream = device.make_stream();
  device.operators().rope_table(*stream, args);
  stream->synchronize();
  return table;
}

class AttentionCore : public BranchCore {
 public:
  explicit AttentionCore(const LayerOptions& options)
      : heads_(options.model.heads),
        kv_heads_(options.model.kv_heads == 0 ? options.model.heads : options.model.kv_heads),
        head_width_(options.model.width / options.model.heads),
        // A square root is exact to the last bit by IEEE 754; it is no libm approximation.
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_width_)))),
        rope_(options.model.kind == ModelKind::kLlama),
        device_(options.device) {
    if (rope_ && device_ != nullptr) {
      table_ =
          make_rope_table(*device_, options.model.context, head_width_, options.model.rope_base);
    }
  }

  std::int64_t inner_width() const override { return (heads_ + 2 * kv_heads_) * head_width_; }
  std::int64_t out_width() const override { return heads_ * head_width_; }
  // The log-sum-exp of the scores.
  std::int64_t kept_bytes(const MicrobatchShape& shape) const override {
    return heads_ * shape.rows() * static_cast<std::int64_t>(sizeof(float));
  }
  std::int64_t workspace_bytes(const MicrobatchShape& shape) const override {
    Carver arena(nullptr);
    (void)carve(arena, shape);
    return arena.used();
  }
  double forward_flops(const MicrobatchShape& shape) const override {
    // The causal half of QK^T and of PV: 2 * 2 * n * T * H*D / 2.
    return 2.0 * static_cast<double>(shape.rows()) * static_cast<double>(shape.positions) *
           static_cast<double>(out_width());
  }

  void forward(const LayerCall& call, const Values& values) const override {
    if (rope_) rotate(call, values.inner, /*inverse=*/false);
    kernels::AttentionForwardArgs args;
    args.qkv = values.inner;
    args.o = values.out;
    args.lse = static_cast<float*>(static_cast<void*>(values.kept));
    args.batch = call.shape.batch;
    args.positions = call.shape.positions;
    args.heads = heads_;
    args.kv_heads = kv_heads_;
    args.head_width = head_width_;
    args.scale = scale_;
    call.operators.attention_forward(call.stream, args);
  }

  void backward(const LayerCall& call, const Values& values, const float* d_out,
                kernels::Ref d_inner, std::byte* workspace) const override {
    Carver arena(workspace);
    const Workspace work = carve(arena, call.shape);
    // RoPE turns f32 in place, so a bf16 result is rounded only after it.
    const bool round_after = rope_ && d_inner.type != kernels::DType::kF32;
    kernels::AttentionBackwardArgs args;
    args.qkv = values.inner;
    args.o = values.out;
    args.lse = static_cast<const float*>(static_cast<const void*>(values.kept));
    args.d_o = d_out;
    args.dqkv = round_after ? kernels::Ref{work.unrounded, kernels::DType::kF32} : d_inner;
    args.workspace = work.attention;
    args.batch = call.shape.batch;
    args.positions = call.shape.positions;
    args.heads = heads_;
    args.kv_heads = kv_heads_;
    args.head_width = head_width_;
    args.scale = scale_;
    call.operators.attention_backward(call.stream, args);
    if (rope_) rotate(call, static_cast<float*>(args.dqkv.data), /*inverse=*/true);
    if (round_after) {
      call.operators.convert(call.stream, args.dqkv, d_inner, call.shape.rows() * inner_width());
    }
  }

 private:
  struct Workspace {
    std::byte* attention = nullptr;
    float* unrounded = nullptr;
  };
  Workspace carve(Carver& arena, const MicrobatchShape& shape) const {
    Workspace work;
    // Sizes asked for without a device leave the kernel's own scratch out.
    const std::int64_t kernel_bytes =
        device_ == nullptr ? 0
                           : device_->operators().attention_workspace_bytes(
                                 shape.batch, shape.positions, heads_, kv_heads_, head_width_);
    work.attention = arena.bytes(kernel_bytes);
    if (rope_) work.unrounded = arena.array<float>(shape.rows() * inner_width());
    return work;
  }

  // q heads and k heads lie side by side at the start of a row: one call turns both.
  void rotate(const LayerCall& call, float* qkv, bool inverse) const {
    kernels::RopeArgs args;
    args.x = qkv;
    args.cosine = table_.cosine.as<const float>();
    args.sine = table_.sine.as<const float>();
    args.batch = call.shape.batch;
    args.positions = call.shape.positions;
    args.heads = heads_ + kv_heads_;
    args.head_width = head_width_;
    args.stride = inner_width();
    args.inverse = inverse;
    call.operators.rope(call.stream, args);
  }

  std::int64_t heads_, kv_heads_, head_width_;
  float scale_;
  bool rope_;
  kernels::Device* device_;
  RopeTable table_;
};

}  // namespace

std::unique_ptr<BranchCore> make_attention_core(const LayerOptions& options) {
  return std::make_unique<AttentionCore>(options);
}

}  // namespace headrace::stages
