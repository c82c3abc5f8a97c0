// Everything about a stage that needs no memory: its layers, who holds which parameter, where each
// byte will lie.
//
// What it is for: stage_bytes and Stage::create agree because both read this. What it does not do:
// allocate. Thread rule: a value.
#pragma once

#include "stages/detail/block_tree.hpp"
#include "stages/layer.hpp"
#include "stages/stage.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace headrace::stages {

inline constexpr std::int64_t kNone = -1;

// A parameter this stage reads. Offsets are in elements; kNone where there is no such array.
struct PlannedParameter {
  ParameterSpec spec;
  std::int64_t order = 0;
  bool trainable = false;
  bool borrowed = false;  // weight and moments live in StageOptions::tied_embedding
  bool copy = false;      // a tied matrix whose embedding is on another rank
  bool mirrored = false;  // a GEMM reads its bf16 mirror
  std::int64_t weight_offset = kNone;
  std::int64_t moment_offset = kNone;
  std::int64_t mirror_offset = kNone;
};

// A layer's use of a parameter; a tied matrix is used twice, with an accumulator for each.
struct PlannedUse {
  std::size_t parameter = 0;
  std::int64_t gradient_offset = kNone;  // into one accumulator of the tree; kNone: frozen
};

struct PlannedLayer {
  LayerSpec spec;
  std::unique_ptr<Layer> layer;
  LayerBytes bytes;
  std::vector<PlannedUse> uses;
  bool trainable = false;
  bool backward = false;     // backward_input runs here
  bool lent_frames = false;  // keeps nothing: stash and weight inputs lie in the workspace
  std::int64_t stash_offset = 0, weight_forward_offset = 0, weight_backward_offset = 0;
  bool output_kept = false;        // from F to I, for the next layer's backward
  std::int64_t output_offset = 0;  // into the stash, when kept
  std::int64_t first_check = 0;    // into the checks of a microbatch: output, input gradient, uses
};

struct StagePlan {
  std::vector<PlannedLayer> layers;
  std::vector<PlannedParameter> parameters;
  kernels::DType inner_type = kernels::DType::kF32;  // of values between two layers of the stage
  std::int64_t inner_bytes = 0;                      // of one such value
  std::int64_t inner_values = 0;                     // buffers for them in the workspace: 0 or 2
  std::int64_t weight_elements = 0, moment_elements = 0, mirror_elements = 0;
  std::int64_t gradient_elements = 0;  // of one accumulator
  std::int32_t accumulators = 0;
  std::int32_t block_microbatches = 1;
  std::vector<std::vector<Subtree>> roots;  // [replica]
  std::int32_t first_microbatch = 0;        // of this replica, and how many it has
  std::int32_t own_microbatches = 0;
  std::int32_t moments = 0;         // per trainable parameter: 2 adamw, 1 sgd with momentum, 0 sgd
  std::size_t lowest_backward = 0;  // layers.size() when nothing runs backward
  bool gives_input_gradient = false;
  std::int64_t checks_per_microbatch = 0;
  StageBytes bytes;
};

[[nodiscard]] Result<StagePlan> make_plan(const StageOptions& options);

// A tied matrix is known by its name in both layers.
[[nodiscard]] bool is_tied_matrix(const ModelSpec& model, const std::string& name);

}  // namespace headrace::stages
