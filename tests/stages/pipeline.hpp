// Drives the stages of a model by hand, one after the other, in one thread.
//
// What it is for: tests compare partitions, frame counts and options without actors. What it does
// not do: overlap anything. Thread rule: one thread.
#pragma once

#include "kernels/cpu/cpu_device.hpp"
#include "stages/partition.hpp"
#include "stages/stage.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace headrace::stages::test {

// kOneByOne: F, I, W of a microbatch before the next, one frame. kFillDrain: all F, then all I,
// then all W, a frame per microbatch.
enum class Order { kOneByOne, kFillDrain };

struct PipelineOptions {
  ModelSpec model;
  Partition partition;                // empty: one stage with everything
  std::vector<std::int32_t> rank_of;  // by stage; empty: a rank for each stage
  MicrobatchShape shape{2, 5};
  std::int32_t microbatches = 4;
  std::int32_t reduction_blocks = 1;
  std::int64_t loss_tokens = 0;  // what the loss is divided by; 0: the tokens of the step
  OptimizerSpec optimizer;
  Order order = Order::kOneByOne;
  bool queued = false;
  BrokenRule broken_rule = BrokenRule::kNone;
};

using Tensors = std::map<std::string, std::vector<float>>;

struct StepResult {
  std::vector<double> losses;  // summed, by microbatch
  double norm = 0;
  Tensors gradients;
};

class Pipeline {
 public:
  explicit Pipeline(const PipelineOptions& options);

  // tokens: microbatches * B * (T+1); targets are the inputs moved by one.
  void set_tokens(const std::vector<std::int32_t>& tokens);
  void set_targets(const std::vector<std::int32_t>& targets);
  // Forward, backward, reduce; then the norm and, when `update`, the update.
  StepResult step(StepIndex step, bool update = true, bool check_finite = false);

  [[nodiscard]] Tensors state();
  void set_weight(const std::string& name, const std::vector<float>& values);
  [[nodiscard]] Stage& stage(std::size_t index) { return *stages_[index]; }
  [[nodiscard]] std::size_t stages() const { return stages_.size(); }
  [[nodiscard]] std::int32_t most_frames() const { return most_frames_; }
  [[nodiscard]] std::int64_t tokens_per_step() const;

 private:
  void forward(MicrobatchIndex m);
  void backward_input(MicrobatchIndex m);
  void backward_weight(MicrobatchIndex m);
  void exchange_tied();
  [[nodiscard]] std::byte* boundary(std::size_t stage, MicrobatchIndex m, bool gradient);
  [[nodiscard]] bool backward_from(std::size_t stage) const;

  PipelineOptions options_;
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Stream> stream_;
  std::vector<kernels::Buffer> workspaces_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<bool> trains_;  // a layer of this stage or below trains
  kernels::Buffer boundaries_, inputs_, targets_;
  std::int32_t most_frames_ = 0;
};

// Pseudo-random token ids, the same for the same seed.
[[nodiscard]] std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary,
                                                      std::uint32_t seed);
[[nodiscard]] Partition split(const ModelSpec& model, std::int32_t stages);
// Names of the tensors that differ in any bit or are in one only; empty: the same.
[[nodiscard]] std::string differences(const Tensors& a, const Tensors& b);

[[nodiscard]] ModelSpec tiny_gpt2();
[[nodiscard]] ModelSpec tiny_llama();
[[nodiscard]] ModelSpec tiny_mlp();

}  // namespace headrace::stages::test
