// The one small interface behind which every layer lives, and the registry of layer kinds.
//
// What it is for: forward, backward-input and backward-weight as three separate calls that only
// enqueue; parameters by global name; bytes of each lifetime. A user adds a kind in one file
// (docs/LAYERS.md). What it does not do: own weights or activations: the stage lends them per call.
// Thread rule: a layer belongs to its stage's thread; the registry is filled before the first run.
//
// Lifetimes of what a layer keeps per microbatch (bytes(), carved from arenas of the stage):
//   stash            F .. I   what backward_input needs
//   weight_forward   F .. W   inputs of weight gradients known in forward (with recompute: I .. W)
//   weight_backward  I .. W   inputs of weight gradients known in backward
//   workspace        one call, shared by all layers of the rank
// The layer's input x stays readable from F to I; a layer that needs it for W copies it.
#pragma once

#include "kernels/device.hpp"
#include "kernels/operators.hpp"
#include "runtime/base/broken_rule.hpp"
#include "stages/model.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::stages {

enum class InitKind { kZeros, kOnes, kNormal };

struct ParameterSpec {
  std::string name;                 // global: `block.7.attn.qkv.weight`
  std::vector<std::int64_t> shape;  // row-major; matrices are [out, in]
  InitKind init = InitKind::kNormal;
  float deviation = 0.02F;  // of kNormal
  bool gemm = true;         // of a matrix: false when no GEMM reads it (embedding tables)
  [[nodiscard]] std::int64_t count() const;
  [[nodiscard]] bool is_matrix() const { return shape.size() >= 2; }  // weight decay applies
};

// Device pointers of one parameter during a call. gemm is the matrix in the GEMM's dtype (the fp32
// weight itself, or its bf16 mirror). gradient is the accumulator of the microbatch's block, null
// when frozen.
struct ParameterView {
  const float* weight = nullptr;
  kernels::ConstRef gemm;
  float* gradient = nullptr;
};

struct LayerBytes {
  std::int64_t stash = 0;
  std::int64_t weight_forward = 0;
  std::int64_t weight_backward = 0;
  std::int64_t workspace = 0;
};

// What is the same for all microbatches of a step; fixed when the step opens.
struct StepContext {
  StepIndex step{0};
  kernels::PhiloxKey dropout_key;  // key_of_step(seed, step, epoch)
  float loss_scale = 1.0F;         // 1 / supervised tokens of the whole global batch; 0 if none
  const std::int32_t* inputs = nullptr;  // device, [batch_size, T]; null on ranks without embedding
  const std::int32_t* targets = nullptr;  // device, [batch_size, T]; null on ranks without head
  bool check_finite = false;  // replay: look for the first non-finite value after each layer
};

struct LayerCall {
  kernels::Stream& stream;
  kernels::Operators& operators;
  const StepContext& step;
  MicrobatchShape shape{};
  MicrobatchIndex microbatch{0};
  std::span<const ParameterView> parameters{};  // in the order of Layer::parameters()
  std::byte* stash = nullptr;
  std::byte* weight_forward = nullptr;
  std::byte* weight_backward = nullptr;
  std::byte* workspace = nullptr;
  kernels::ConstRef x{};   // input [n, C] (null for embedding)
  kernels::Ref y{};        // forward: output [n, C] (null for head)
  kernels::ConstRef dy{};  // backward_input: gradient of y (null for head)
  kernels::Ref dx{};       // backward_input: gradient of x; data null when nobody below trains
  const std::int32_t* inputs = nullptr;  // this microbatch's rows of StepContext::inputs
  const std::int32_t* targets = nullptr;
  double* loss_sum = nullptr;  // head: this microbatch's own summed loss (f64), overwritten
};

class Layer {
 public:
  virtual ~Layer() = default;
  // Constant after construction.
  [[nodiscard]] virtual const std::vector<ParameterSpec>& parameters() const = 0;
  [[nodiscard]] virtual LayerBytes bytes(const MicrobatchShape& shape) const = 0;
  // FLOPs of one forward, for the automatic partition.
  [[nodiscard]] virtual double forward_flops(const MicrobatchShape& shape) const = 0;
  // Each enqueues on call.stream and does not synchronise.
  virtual void forward(const LayerCall& call) = 0;
  virtual void backward_input(const LayerCall& call) = 0;
  virtual void backward_weight(const LayerCall& call) = 0;
};

// Everything a layer kind's factory may look at.
struct LayerOptions {
  ModelSpec model;
  LayerSpec spec;
  // For constant tables; null when only parameters, bytes and FLOPs are asked for.
  kernels::Device* device = nullptr;
  BrokenRule broken_rule = BrokenRule::kNone;
};

using LayerFactory = std::function<std::unique_ptr<Layer>(const LayerOptions&)>;

// Call before building models; kConfig if the kind is already there.
Status register_layer_kind(std::string_view kind, LayerFactory factory);
// kConfig with the nearest known kind when there is no such kind for this model.
[[nodiscard]] Result<std::unique_ptr<Layer>> make_layer(const LayerOptions& options);
// Registered kinds in alphabetical order.
[[nodiscard]] std::vector<std::string> layer_kinds();

}  // namespace headrace::stages
