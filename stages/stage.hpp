// One stage of a model on one device: weights, gradients, moments, and the frames of its
// microbatches.
//
// What it is for: the only thing the runtime drives: forward, backward_input, backward_weight per
// microbatch, and the step's end. All memory is allocated when it is built. What it does not do:
// know ranks, links, schedules or messages. Thread rule: owned by one thread; calls only enqueue on
// the stage's stream, unless said otherwise.
//
// Invariants
//  1. backward_weight runs in ascending microbatch order within a step ([Note: one way to add]).
//  2. The gradient is a fixed binary tree (left = largest power of two below n) over
//  `reduction_blocks`
//     blocks of consecutive microbatches; inside a block every W adds into one zeroed accumulator.
//     A replica computes the blocks of its own microbatches and takes the others' sums from
//     outside.
//  3. A frame (stash, weight inputs) belongs to one microbatch from F to I or W. A microbatch
//  without a
//     free frame is a bug of the caller: capacities come from the validated program.
#pragma once

#include "kernels/device.hpp"
#include "stages/layer.hpp"
#include "stages/model.hpp"
#include "stages/optimizer.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::stages {

class Stage;

// How many microbatches may hold each lifetime at once (ProgramFacts of the validated program).
struct FrameCapacity {
  std::int32_t stash = 1;          // F .. I
  std::int32_t activation = 1;     // F .. W
  std::int32_t weight_inputs = 1;  // I .. W
};

struct StageOptions {
  ModelSpec model;
  StageIndex stage{0};
  std::vector<LayerSpec> layers;  // contiguous run of layer_list(model)
  MicrobatchShape shape;
  std::int32_t microbatches = 1;  // M of the step
  std::int32_t reduction_blocks = 1;
  // The stage exists `replicas` times with the same weights; this one computes the replica-th of
  // equal runs of whole blocks, so that `replicas` divides `reduction_blocks`.
  ReplicaIndex replica{0};
  std::int32_t replicas = 1;
  FrameCapacity frames;
  OptimizerSpec optimizer;
  bool training = true;        // false: forward only: no gradients, no moments, no frames kept
  bool input_gradient = true;  // false: nothing below trains: backward_input stops inside
  kernels::Device* device = nullptr;
  kernels::Stream* stream = nullptr;  // all work of the stage is enqueued here; not owned
  std::byte* workspace = nullptr;     // at least StageBytes::workspace, shared by the rank's stages
  // Tied model: the embedding's stage when it lives on the same rank (one copy of weight and
  // moments); null when this stage holds both ends itself or none, or when the other end is
  // elsewhere (then this stage holds its own copy and the parts are exchanged).
  Stage* tied_embedding = nullptr;
  BrokenRule broken_rule = BrokenRule::kNone;
};

struct StageBytes {
  std::int64_t parameters = 0;       // fp32 weights (+ bf16 mirrors)
  std::int64_t gradients = 0;        // accumulators of the tree
  std::int64_t optimizer = 0;        // moments
  std::int64_t roots = 0;            // what this replica ships to each other one, see Stage::roots
  std::int64_t stash = 0;            // per microbatch, F .. I (inner activations included)
  std::int64_t weight_forward = 0;   // per microbatch, F .. W (recompute: I .. W)
  std::int64_t weight_backward = 0;  // per microbatch, I .. W
  std::int64_t workspace = 0;        // per rank, the largest of its stages counts
  [[nodiscard]] std::int64_t total(const FrameCapacity& frames) const;  // without workspace
};

// Sizes without building anything. `options.device` may be null; the workspace then lacks the
// kernels' own part, so give the device when allocating by it.
[[nodiscard]] Result<StageBytes> stage_bytes(const StageOptions& options);

// One tensor of the persistent state, for hashing, checkpoints and tests. Order: parameters in
// global order, each followed by its moments.
struct StateTensor {
  std::int64_t order = 0;  // parameter_order, times 4, plus 0 weight / 1 / 2 moments
  std::string name;        // `block.0.attn.qkv.weight`, `…weight#moment1`, `…#moment2`
  std::vector<std::int64_t> shape;
  float* data = nullptr;  // device, fp32; after writing call Stage::weights_changed
  std::int64_t count = 0;
  // Of a tied matrix at the head's end, when the embedding lives elsewhere: hashes and checkpoints
  // take the embedding's.
  bool copy = false;
};

// Sum of squares of one parameter's gradient. Parameters are folded in global order by the
// scheduler.
struct SquareSum {
  std::int64_t order = 0;  // parameter_order: ascending, with gaps
  double value = 0;
};

// The first non-finite value seen in a replayed step.
struct NonFinite {
  bool found = false;
  bool backward = false;
  MicrobatchIndex microbatch{0};
  LayerIndex layer{0};
  std::string
      tensor;  // "output", "input gradient", "gradient of block.0.attn.qkv.weight", "weight …"
};

class Stage {
 public:
  // Builds, allocates and initialises (Philox by seed and global parameter index). kConfig for
  // unknown layer kinds or shapes that do not fit.
  [[nodiscard]] static Result<std::unique_ptr<Stage>> create(const StageOptions& options);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  // Opens a step: zeroes accumulators, takes the context. @pre no frame is held
  void begin_step(const StepContext& step);
  // x: boundary dtype [n,C], readable until backward_input of m was enqueued; null for the first
  // stage. y: boundary dtype, null for the last stage.
  void forward(MicrobatchIndex m, const void* x, void* y);
  // dy null for the last stage, dx null for the first stage.
  void backward_input(MicrobatchIndex m, const void* dy, void* dx);
  void backward_weight(MicrobatchIndex m);
  // Several replicas: the sums of this one's largest complete subtrees, StageBytes::roots bytes on
  // the device. Changes with reduce_gradients: send it before, in the order of the stream.
  // @pre the last W of the step was enqueued
  [[nodiscard]] const std::byte* roots() const;
  // Folds the tree; afterwards every gradient is complete (a tied part still lacks the other end).
  // `roots`: [replica] what each replica's roots() held, this one's own entry ignored; overwritten.
  // Empty for a single replica.
  void reduce_gradients(std::span<std::byte* const> roots = {});

  [[nodiscard]] bool has_embedding() const;
  [[nodiscard]] bool has_head() const;
  // Tied ends on different ranks: this end's completed part [V,C], and adding the other end's part:
  // always embedding part + head part. tied_part() changes with add_tied_part: send it before, in
  // the order of the stream.
  [[nodiscard]] bool exchanges_tied() const;
  [[nodiscard]] const float* tied_part() const;
  [[nodiscard]] std::int64_t tied_count() const;  // elements
  void add_tied_part(const float* other_end);

  // @pre a tied matrix is complete: both stages of the rank reduced, or the other end's part added.
  // Enqueues the sums; the values are host-readable once the stream has passed this point. A tied
  // matrix is counted by the embedding's end only, a replicated one by replica 0 only; frozen
  // parameters not at all.
  void square_sums();
  [[nodiscard]] std::span<const SquareSum> read_square_sums();  // after the stream passed
  // Summed loss per microbatch of this replica (head only), from first_microbatch() on; after the
  // stream passed.
  [[nodiscard]] std::span<const double> loss_sums() const;

  void apply_update(const UpdateContext& update);
  [[nodiscard]] NonFinite first_non_finite();  // after a step with check_finite, stream passed

  [[nodiscard]] std::vector<StateTensor> state();
  // Refreshes the bf16 mirrors after weights were written through state().
  void weights_changed();
  [[nodiscard]] std::vector<ParameterSpec> parameters() const;  // held here, in global order
  // Gradient of a parameter held here after reduce_gradients, for tests; null when frozen or
  // unknown.
  [[nodiscard]] const float* gradient(std::string_view name) const;
  [[nodiscard]] std::int32_t frames_in_use() const;        // microbatches between F and W
  [[nodiscard]] MicrobatchIndex first_microbatch() const;  // of this replica

 private:
  class Impl;
  explicit Stage(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace headrace::stages
