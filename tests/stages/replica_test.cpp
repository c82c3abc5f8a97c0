// Replicas of a stage: each computes the blocks of its own microbatches, all fold the same tree.
#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <vector>

namespace headrace::stages::test {
namespace {

constexpr std::int32_t kMicrobatches = 12;

// All layers in one stage, `replicas` times; the test is the link between them.
class Replicas {
 public:
  Replicas(const ModelSpec& model, std::int32_t replicas, std::int32_t blocks) {
    device_ = kernels::make_cpu_device({});
    stream_ = device_->make_stream();
    StageOptions options;
    options.model = model;
    options.layers = layer_list(model);
    options.shape = {2, 5};
    options.microbatches = kMicrobatches;
    options.reduction_blocks = blocks;
    options.replicas = replicas;
    options.device = device_.get();
    options.stream = stream_.get();
    tokens_ = random_tokens(kMicrobatches * options.shape.rows() + 1, 11, 5);
    for (std::int32_t d = 0; d < replicas; ++d) {
      options.replica = ReplicaIndex(d);
      const StageBytes bytes = stage_bytes(options).value();
      root_bytes_.push_back(static_cast<std::size_t>(bytes.roots));
      memory_.push_back(device_->allocate(static_cast<std::size_t>(bytes.workspace)));
      options.workspace = memory_.back().data();
      stages_.push_back(Stage::create(options).value());
    }
    optimizer_ = options.optimizer;
  }

  void step(std::int64_t number) {
    StepContext context;
    context.step = StepIndex(number);
    context.dropout_key = kernels::key_of_step(1, number, 0);
    context.loss_scale = 1.0F / 120.0F;
    context.inputs = tokens_.data();
    context.targets = tokens_.data() + 1;
    const auto own = kMicrobatches / static_cast<std::int32_t>(stages_.size());
    for (auto& stage : stages_) {
      stage->begin_step(context);
      const std::int32_t first = stage->first_microbatch().value;
      for (std::int32_t m = first; m < first + own; ++m) {
        stage->forward(MicrobatchIndex(m), nullptr, nullptr);
        stage->backward_input(MicrobatchIndex(m), nullptr, nullptr);
        stage->backward_weight(MicrobatchIndex(m));
      }
    }
    exchange();
    for (auto& stage : stages_) stage->square_sums();
    stream_->synchronize();
    for (auto& stage : stages_) stage->apply_update(update_at(optimizer_, StepIndex(number), 1.0));
    stream_->synchronize();
  }

  [[nodiscard]] Stage& stage(std::size_t d) { return *stages_[d]; }

 private:
  // Every replica gets its own copy of every other's roots, as over a link.
  void exchange() {
    if (stages_.size() == 1) return stages_.front()->reduce_gradients();
    std::vector<std::vector<std::byte>> shipped;
    for (std::size_t d = 0; d < stages_.size(); ++d) {
      const std::byte* roots = stages_[d]->roots();
      shipped.emplace_back(roots, roots + root_bytes_[d]);
    }
    for (auto& stage : stages_) {
      auto copy = shipped;
      std::vector<std::byte*> roots;
      for (auto& bytes : copy) roots.push_back(bytes.data());
      stage->reduce_gradients(roots);
      stream_->synchronize();
    }
  }

  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Stream> stream_;
  std::vector<kernels::Buffer> memory_;
  std::vector<std::size_t> root_bytes_;
  std::vector<std::int32_t> tokens_;
  std::vector<std::unique_ptr<Stage>> stages_;
  OptimizerSpec optimizer_;
};

Tensors state_of(Stage& stage) {
  Tensors tensors;
  for (const StateTensor& tensor : stage.state()) {
    tensors[tensor.name].assign(tensor.data, tensor.data + tensor.count);
  }
  return tensors;
}

TEST_CASE("replicas: any number of them gives the bits of one for every number of blocks") {
  for (const bool tied : {false, true}) {
    ModelSpec model = tiny_gpt2();
    model.tied = tied;
    model.dropout = 0.1F;
    for (const std::int32_t blocks : {2, 4, 6, 12}) {
      Replicas one(model, 1, blocks);
      for (std::int64_t s = 1; s <= 2; ++s) one.step(s);
      const Tensors expected = state_of(one.stage(0));
      for (const std::int32_t replicas : {2, 3, 4, 6}) {
        if (blocks % replicas != 0) continue;
        CAPTURE(blocks);
        CAPTURE(replicas);
        Replicas several(model, replicas, blocks);
        for (std::int64_t s = 1; s <= 2; ++s) several.step(s);
        for (std::int32_t d = 0; d < replicas; ++d) {
          CHECK(differences(state_of(several.stage(static_cast<std::size_t>(d))), expected) == "");
        }
      }
    }
  }
}

TEST_CASE("replicas: losses are the own microbatches and only the first counts in the norm") {
  Replicas one(tiny_gpt2(), 1, 2);
  Replicas two(tiny_gpt2(), 2, 2);
  one.step(1);
  two.step(1);
  const auto all = one.stage(0).loss_sums();
  const auto low = two.stage(0).loss_sums();
  const auto high = two.stage(1).loss_sums();
  REQUIRE(all.size() == 12);
  REQUIRE(low.size() == 6);
  REQUIRE(high.size() == 6);
  CHECK(two.stage(1).first_microbatch() == MicrobatchIndex(6));
  for (std::size_t m = 0; m < 6; ++m) {
    CHECK(low[m] == all[m]);
    CHECK(high[m] == all[m + 6]);
  }
  const auto expected = one.stage(0).read_square_sums();
  const auto squares = two.stage(0).read_square_sums();
  REQUIRE(squares.size() == expected.size());
  for (std::size_t i = 0; i < squares.size(); ++i) CHECK(squares[i].value == expected[i].value);
  CHECK(two.stage(1).read_square_sums().empty());
}

TEST_CASE("replicas: blocks that cannot be shared are refused with both numbers") {
  StageOptions options;
  options.model = tiny_gpt2();
  options.layers = layer_list(options.model);
  options.shape = {2, 5};
  options.microbatches = 12;
  options.reduction_blocks = 3;
  options.replicas = 2;
  const auto refused = stage_bytes(options);
  REQUIRE_FALSE(refused.is_ok());
  CHECK(refused.status().message() ==
        "stage 0: 3 reduction blocks cannot be shared evenly by 2 replicas of a stage");
}

}  // namespace
}  // namespace headrace::stages::test
