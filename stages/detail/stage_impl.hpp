// What a Stage owns, cut into parts by file: memory and initial values (stage_memory.cpp), the
// microbatches (stage.cpp), the gradient tree and the update (stage_gradients.cpp), the search for
// non-finite values (stage_check.cpp).
//
// What it is for: private to the Stage. What it does not do: appear in a public header. Thread
// rule: owned by the stage's thread.
//
// [Note: gradient tree] All gradients of the stage lie in one accumulator; there are
// floor(log2 R)+1 of them, used as a stack. A block's weight gradients add into the zeroed
// accumulator on top. When a block ends, the top is added into the one below as long as the two are
// the halves of a complete subtree, as a binary counter carries. At the end of the step the stack
// is folded from the top down. Both together are the tree whose left child is the largest power of
// two below n. A replica that holds the blocks from `first` on does the same with its own; what
// remains are the roots it ships. With everybody's roots in ascending order each replica goes on
// where one alone would be, so that all fold the same tree.
#pragma once

#include "stages/detail/block_tree.hpp"
#include "stages/detail/frame_pool.hpp"
#include "stages/detail/stage_plan.hpp"
#include "stages/stage.hpp"

#include <string_view>
#include <vector>

namespace headrace::stages {

class Stage::Impl {
 public:
  Impl(const StageOptions& options, StagePlan plan);

  // stage_memory.cpp
  void initialise();
  void weights_changed();
  std::vector<StateTensor> state();
  std::vector<ParameterSpec> parameters() const;

  // stage.cpp
  void begin_step(const StepContext& step);
  void forward(MicrobatchIndex m, const void* x, void* y);
  void backward_input(MicrobatchIndex m, const void* dy, void* dx);
  void backward_weight(MicrobatchIndex m);
  bool has_kind(std::string_view kind) const;
  std::span<const double> loss_sums();
  std::int32_t frames_in_use() const { return weight_forward_.in_use(); }
  MicrobatchIndex first_microbatch() const { return MicrobatchIndex(plan_.first_microbatch); }

  // stage_gradients.cpp
  const std::byte* roots() const;
  void reduce_gradients(std::span<std::byte* const> roots);
  bool exchanges_tied() const;
  const float* tied_part() const;
  std::int64_t tied_count() const;
  void add_tied_part(const float* other_end);
  void square_sums();
  std::span<const SquareSum> read_square_sums();
  void apply_update(const UpdateContext& update);
  const float* gradient(std::string_view name) const;

  // stage_check.cpp
  NonFinite first_non_finite();

 private:
  struct Weights {
    float* weight = nullptr;
    void* mirror = nullptr;  // bf16
    float* moments[2] = {nullptr, nullptr};
  };
  // A sum on the stack.
  struct Sum {
    Subtree tree;
    float* values = nullptr;
  };
  // One tied end of this stage: a use of the matrix and its accumulator.
  struct TiedEnd {
    std::int64_t gradient_offset = kNone;
    std::int64_t count = 0;
  };

  // stage_memory.cpp
  void allocate();
  void place_weights();
  void make_views();
  void borrow_tied();
  kernels::ConstRef gemm_operand(std::size_t parameter) const;

  // stage.cpp
  LayerCall call_for(std::size_t layer, MicrobatchIndex m) const;
  kernels::Ref inner_value(std::size_t which) const;
  kernels::Ref output_of(std::size_t layer, MicrobatchIndex m, void* y) const;
  kernels::ConstRef input_of(std::size_t layer, MicrobatchIndex m) const;
  std::byte* layer_workspace() const;

  // stage_gradients.cpp
  float* accumulator(std::int32_t index) const;
  void point_views_at(std::int32_t accumulator_index);
  void open_block();
  void close_block();
  void push_sum(const Sum& sum, bool any_two);
  void fold_top();
  TiedEnd tied_end(std::string_view layer_kind) const;
  void sum_tied_here();
  void sum_tied_between(Impl& embedding, Impl& head);
  bool tied_is_complete() const;
  bool counts_in_norm(const PlannedParameter& parameter) const;

  // stage_check.cpp
  enum class CheckPart { kOutput, kInputGradient };
  void clear_checks();
  void check_weights();
  void check_value(std::size_t layer, MicrobatchIndex m, CheckPart part, kernels::ConstRef value);
  void check_gradients(std::size_t layer, MicrobatchIndex m);
  std::int64_t* check_slot(MicrobatchIndex m, std::int64_t check) const;
  NonFinite first_in_forward(MicrobatchIndex m);
  NonFinite first_in_backward(MicrobatchIndex m);
  bool check_failed_at(MicrobatchIndex m, std::int64_t check) const;

  // Constant after construction.
  const StageOptions options_;
  const StagePlan plan_;
  kernels::Stream& stream_;
  kernels::Operators& operators_;
  const std::int64_t boundary_elements_;
  const kernels::DType boundary_type_;

  // Owned by this thread.
  StepContext step_;
  std::vector<Weights> weights_;                   // by parameter
  std::vector<std::vector<ParameterView>> views_;  // by layer, by use
  kernels::Buffer weight_memory_, mirror_memory_, moment_memory_, gradient_memory_;
  FramePool stash_, weight_forward_, weight_backward_;
  std::vector<const void*> inputs_;  // the stage's x, by microbatch

  std::int32_t weights_done_ = 0;  // microbatches whose weight gradients are in
  std::vector<Sum> stack_;         // of the tree; the open block lies above, all in accumulators
  std::vector<Sum> own_roots_;     // while the roots of all replicas are folded
  bool reduced_ = false;
  bool tied_added_ = false;       // the part of the other rank
  Impl* tied_partner_ = nullptr;  // the stage of this rank with the other end

  kernels::Buffer loss_memory_, square_memory_, check_memory_, unchecked_memory_;
  std::vector<double> losses_, square_values_;  // host copies
  std::vector<SquareSum> squares_;
  std::vector<std::int64_t> checks_;
};

}  // namespace headrace::stages
