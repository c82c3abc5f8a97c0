// The same bits for every cut of the model, and the rules that give them.
#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

namespace headrace::stages::test {
namespace {

constexpr std::int64_t kSteps = 3;

struct Run {
  std::vector<double> losses, norms;
  Tensors gradients, state;
};

OptimizerSpec clipping_adamw() {
  OptimizerSpec optimizer;
  optimizer.learning_rate = 1e-2;
  optimizer.weight_decay = 0.1;
  optimizer.clip_norm = 0.05;
  optimizer.warmup_steps = 2;
  optimizer.decay_steps = 10;
  return optimizer;
}

Run run(const PipelineOptions& options) {
  Pipeline pipeline(options);
  Run run;
  for (std::int64_t s = 1; s <= kSteps; ++s) {
    const StepResult result = pipeline.step(StepIndex(s));
    run.losses.insert(run.losses.end(), result.losses.begin(), result.losses.end());
    run.norms.push_back(result.norm);
    run.gradients = result.gradients;
  }
  run.state = pipeline.state();
  return run;
}

bool same_doubles(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void check_same(const Run& a, const Run& b) {
  CHECK(same_doubles(a.losses, b.losses));
  CHECK(same_doubles(a.norms, b.norms));
  CHECK(differences(a.gradients, b.gradients) == "");
  CHECK(differences(a.state, b.state) == "");
}

bool is_same(const Run& a, const Run& b) {
  return same_doubles(a.losses, b.losses) && same_doubles(a.norms, b.norms) &&
         differences(a.gradients, b.gradients).empty() && differences(a.state, b.state).empty();
}

PipelineOptions options_for(const ModelSpec& model) {
  PipelineOptions options;
  options.model = model;
  options.optimizer = clipping_adamw();
  return options;
}

bool bf16_runs_here() { return kernels::make_cpu_device({})->supports_bf16(); }

std::vector<ModelSpec> models() {
  std::vector<ModelSpec> models{tiny_gpt2(), tiny_llama(), tiny_mlp()};
  for (ModelSpec& model : models) model.dropout = 0.1F;
  models.push_back(models[0]);
  models.back().tied = true;
  const std::size_t count = models.size();
  for (std::size_t i = 0; i < count && bf16_runs_here(); ++i) {
    models.push_back(models[i]);
    models.back().precision = Precision::kBf16;
  }
  return models;
}

}  // namespace

TEST_CASE("stages: every number of stages gives the bits of one stage") {
  for (const ModelSpec& model : models()) {
    const Run one = run(options_for(model));
    CHECK(std::isfinite(one.norms.back()));
    for (const std::int32_t count : {2, 3, 4, 5, 7}) {
      CAPTURE(count);
      PipelineOptions options = options_for(model);
      options.partition = split(model, count);
      check_same(one, run(options));
    }
  }
}

TEST_CASE("stages: order of microbatches and queued streams change no bit") {
  for (const ModelSpec& model : models()) {
    const Run one = run(options_for(model));
    PipelineOptions options = options_for(model);
    options.partition = split(model, 3);
    options.order = Order::kFillDrain;
    check_same(one, run(options));
    options.queued = true;
    check_same(one, run(options));
  }
}

TEST_CASE("stages: recompute changes no bit - C92") {
  for (ModelSpec model : models()) {
    const Run kept = run(options_for(model));
    model.recompute = true;
    for (const std::int32_t count : {1, 3}) {
      PipelineOptions options = options_for(model);
      options.partition = split(model, count);
      options.order = Order::kFillDrain;
      check_same(kept, run(options));
    }
  }
}

TEST_CASE("stages: a tied matrix is the same on one stage - one rank - two ranks") {
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    if (precision == Precision::kBf16 && !bf16_runs_here()) continue;
    ModelSpec model = tiny_gpt2();
    model.tied = true;
    model.precision = precision;
    const Run one = run(options_for(model));
    PipelineOptions options = options_for(model);
    options.partition = split(model, 3);
    const Run two_ranks = run(options);
    options.rank_of = {0, 1, 0};
    const Run one_rank = run(options);
    check_same(one, two_ranks);
    check_same(one, one_rank);
    // The tie is real: an untied head has another gradient.
    CHECK(one.state.count("head.weight") == 0);
    model.tied = false;
    CHECK(differences(one.gradients, run(options_for(model)).gradients) != "");
  }
}

// The tree written again: each block on its own, then summed with the left child the largest power
// of two below n.
std::vector<float> tree_sum(const std::vector<std::vector<float>>& blocks, std::size_t first,
                            std::size_t count) {
  if (count == 1) return blocks[first];
  std::size_t left = 1;
  while (left * 2 < count) left *= 2;
  std::vector<float> sum = tree_sum(blocks, first, left);
  const std::vector<float> right = tree_sum(blocks, first + left, count - left);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

TEST_CASE("stages: reduction blocks add up as the fixed tree of single blocks") {
  constexpr std::int32_t kMicrobatches = 12;
  for (const std::int32_t blocks : {1, 2, 3, 4, 6, 12}) {
    CAPTURE(blocks);
    PipelineOptions options;
    options.model = tiny_gpt2();
    options.microbatches = kMicrobatches;
    options.reduction_blocks = blocks;
    Pipeline whole(options);
    const std::int64_t sequence = options.shape.positions + 1;
    const auto tokens = random_tokens(kMicrobatches * options.shape.batch * sequence, 11, 31);
    whole.set_tokens(tokens);
    const Tensors together = whole.step(StepIndex(1), false).gradients;

    // Each block alone, its loss divided by the tokens of the whole step.
    std::map<std::string, std::vector<std::vector<float>>> alone;
    options.microbatches = kMicrobatches / blocks;
    options.reduction_blocks = 1;
    const std::int64_t tokens_of_block = options.microbatches * options.shape.batch * sequence;
    options.loss_tokens = whole.tokens_per_step();
    Pipeline block(options);
    for (std::int32_t b = 0; b < blocks; ++b) {
      block.set_tokens(
          {tokens.begin() + b * tokens_of_block, tokens.begin() + (b + 1) * tokens_of_block});
      for (auto& [name, gradient] : block.step(StepIndex(1), false).gradients) {
        alone[name].push_back(gradient);
      }
    }
    Tensors expected;
    for (const auto& [name, gradients] : alone) {
      expected[name] = tree_sum(gradients, 0, gradients.size());
    }
    CHECK(differences(together, expected) == "");
  }
}

TEST_CASE("stages: each broken rule of a stage shows in the bits") {
  const auto with = [](PipelineOptions options, BrokenRule rule) {
    options.broken_rule = rule;
    return run(options);
  };
  PipelineOptions options = options_for(tiny_gpt2());
  options.model.tied = true;
  options.partition = split(options.model, 3);
  const Run right = run(options);
  CHECK_FALSE(is_same(right, with(options, BrokenRule::kInitByStage)));
  CHECK_FALSE(is_same(right, with(options, BrokenRule::kTiedSum)));

  options.microbatches = 12;
  options.reduction_blocks = 12;
  CHECK_FALSE(is_same(run(options), with(options, BrokenRule::kTreeShape)));

  if (bf16_runs_here()) {
    options.model.precision = Precision::kBf16;
    PipelineOptions whole = options;
    whole.partition.clear();
    CHECK_FALSE(is_same(with(whole, BrokenRule::kBoundaryRounding),
                        with(options, BrokenRule::kBoundaryRounding)));
  }
}

// Only products longer than a block of the GEMM library's own inner loop tell the two ways apart.
TEST_CASE("stages: finished sums differ from accumulated ones at long products") {
  PipelineOptions options = options_for(tiny_gpt2());
  options.model.layers = 1;
  options.model.width = 272;
  options.model.hidden = 1088;
  options.model.context = 733;
  options.shape = {3, 733};
  options.microbatches = 2;
  const Run right = run(options);
  options.broken_rule = BrokenRule::kFinishedSums;
  const Run broken = run(options);
  CHECK_FALSE(is_same(right, broken));
}

TEST_CASE("stages: frozen stages keep their weights and give the bits of one stage - C30") {
  for (const bool tied : {false, true}) {
    ModelSpec model = tiny_gpt2();
    model.tied = tied;
    const Tensors initial = [&] {
      PipelineOptions options = options_for(model);
      return Pipeline(options).state();
    }();
    using Frozen = std::vector<bool>;
    for (const Frozen& frozen : {Frozen{true, false, false}, Frozen{false, true, false},
                                 Frozen{true, true, false}, Frozen{true, true, true}}) {
      const std::vector<StageRequest> requests{
          {{{"embedding", 1}, {"block", 1}}, frozen[0]},
          {{{"block", 2}}, frozen[1]},
          {{{"block", 1}, {"norm", 1}, {"head", 1}}, frozen[2]}};
      PipelineOptions options = options_for(model);
      options.partition = requested_partition(model, requests).value();
      const Run three = run(options);
      PipelineOptions whole = options_for(model);
      whole.partition.emplace_back();
      for (const auto& stage : options.partition) {
        whole.partition[0].insert(whole.partition[0].end(), stage.begin(), stage.end());
      }
      check_same(run(whole), three);
      for (const auto& [name, values] : three.state) {
        if (name.find('#') != std::string::npos) continue;
        const bool trained = three.gradients.count(name) == 1;
        const std::string& parameter = name;  // clang 14: a binding cannot be captured
        CAPTURE(parameter);
        CHECK(trained == (three.state.count(name + "#moment1") == 1));
        CHECK(trained == (std::memcmp(values.data(), initial.at(name).data(),
                                      values.size() * sizeof(float)) != 0));
      }
      const bool expect_block1 = !frozen[1];
      CHECK((three.gradients.count("block.1.mlp.up.weight") == 1) == expect_block1);
      CHECK((three.gradients.count("embedding.token.weight") == 1) == !frozen[0]);
    }
  }
}

}  // namespace headrace::stages::test
