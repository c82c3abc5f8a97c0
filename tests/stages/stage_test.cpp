#include "stages/stage.hpp"

#include "tests/data/allocation_count.hpp"
#include "tests/stages/null_device.hpp"
#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace headrace::stages::test {
namespace {

// Elements of tiny_gpt2: C = 8, F = 20, T = 6, V = 11.
constexpr std::size_t kMatrix = 160;    // [F, C] and [C, F]
constexpr std::size_t kPositions = 48;  // [T, C]
constexpr std::size_t kTokens = 88;     // [V, C]

StageOptions whole_model(const ModelSpec& model) {
  StageOptions options;
  options.model = model;
  options.layers = layer_list(model);
  options.shape = {2, 5};
  options.microbatches = 4;
  return options;
}

std::string refusal(const StageOptions& options) {
  const auto bytes = stage_bytes(options);
  CHECK(bytes.status().code() == StatusCode::kConfig);
  return bytes.status().message();
}

std::int64_t padded(std::int64_t elements) { return (elements * 4 + 255) / 256 * 256; }

std::int64_t padded_parameters(const ModelSpec& model) {
  std::int64_t bytes = 0;
  for (const LayerSpec& spec : layer_list(model)) {
    const auto layer = make_layer({.model = model, .spec = spec});
    for (const ParameterSpec& parameter : (*layer)->parameters()) {
      bytes += padded(parameter.count());
    }
  }
  return bytes;
}

void put_value(Pipeline& pipeline, const std::string& name, std::size_t index, float value) {
  std::vector<float> values = pipeline.state().at(name);
  values[index] = value;
  pipeline.set_weight(name, values);
}

NonFinite replay(Pipeline& pipeline, std::size_t stage) {
  (void)pipeline.step(StepIndex(1), false, /*check_finite=*/true);
  return pipeline.stage(stage).first_non_finite();
}

}  // namespace

TEST_CASE("stage: bytes are weights - accumulators and moments of the parameters") {
  const ModelSpec model = tiny_gpt2();
  StageOptions options = whole_model(model);
  const std::int64_t parameters = padded_parameters(model);
  CHECK(stage_bytes(options)->parameters == parameters);
  CHECK(stage_bytes(options)->gradients == parameters);
  CHECK(stage_bytes(options)->optimizer == 2 * parameters);
  options.reduction_blocks = 4;
  CHECK(stage_bytes(options)->gradients == 3 * parameters);
  options.optimizer.kind = OptimizerKind::kSgd;
  CHECK(stage_bytes(options)->optimizer == 0);
  options.optimizer.momentum = 0.9;
  CHECK(stage_bytes(options)->optimizer == parameters);
  options.training = false;
  CHECK(stage_bytes(options)->gradients == 0);
  CHECK(stage_bytes(options)->optimizer == 0);
  CHECK(stage_bytes(options)->stash == 0);
  CHECK(stage_bytes(options)->weight_forward == 0);
  CHECK(stage_bytes(options)->weight_backward == 0);
}

TEST_CASE("stage: recompute keeps less from F to I and from F to W - C92") {
  ModelSpec model = tiny_gpt2();
  const StageBytes kept = stage_bytes(whole_model(model)).value();
  model.recompute = true;
  const StageBytes again = stage_bytes(whole_model(model)).value();
  CHECK(again.stash < kept.stash / 2);
  CHECK(again.weight_forward < kept.weight_forward / 2);
  const FrameCapacity frames{.stash = 4, .activation = 4, .weight_inputs = 1};
  CHECK(again.total(frames) < kept.total(frames));
}

TEST_CASE("stage: the total counts each lifetime by its own frames") {
  const StageBytes bytes{.parameters = 1,
                         .gradients = 20,
                         .optimizer = 300,
                         .stash = 1000,
                         .weight_forward = 10000,
                         .weight_backward = 100000,
                         .workspace = 7};
  CHECK(bytes.total({.stash = 2, .activation = 3, .weight_inputs = 4}) == 432321);
}

TEST_CASE("stage: frames are held from F to W only") {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.partition = split(options.model, 3);
  Pipeline one_by_one(options);
  (void)one_by_one.step(StepIndex(1));
  CHECK(one_by_one.most_frames() == 1);
  options.order = Order::kFillDrain;
  Pipeline fill_drain(options);
  (void)fill_drain.step(StepIndex(1));
  CHECK(fill_drain.most_frames() == options.microbatches);
  CHECK(fill_drain.stage(0).frames_in_use() == 0);
}

// The kernels have their own test; what is counted here is the stage's own work.
TEST_CASE("stage: a steady step allocates nothing in forward - backward and step end") {
  for (const bool recompute : {false, true}) {
    NullDevice device;
    auto stream = device.make_stream();
    StageOptions options = whole_model(tiny_gpt2());
    options.model.tied = true;
    options.model.recompute = recompute;
    options.model.precision = Precision::kBf16;
    options.reduction_blocks = 4;
    options.device = &device;
    options.stream = stream.get();
    const kernels::Buffer workspace =
        device.allocate(static_cast<std::size_t>(stage_bytes(options)->workspace));
    options.workspace = workspace.data();
    const auto stage = Stage::create(options).value();
    const std::vector<std::int32_t> tokens = random_tokens(40, 11, 1);
    std::int64_t allocations = 0;
    for (std::int64_t s = 1; s <= 3; ++s) {
      const std::int64_t before = data::allocation_count();
      device.null_operators.attention_forwards = 0;
      StepContext step;
      step.step = StepIndex(s);
      step.inputs = step.targets = tokens.data();
      step.check_finite = s == 3;
      stage->begin_step(step);
      for (std::int32_t m = 0; m < 4; ++m) {
        stage->forward(MicrobatchIndex(m), nullptr, nullptr);
        stage->backward_input(MicrobatchIndex(m), nullptr, nullptr);
        stage->backward_weight(MicrobatchIndex(m));
      }
      stage->reduce_gradients();
      stage->square_sums();
      (void)stage->read_square_sums();
      (void)stage->loss_sums();
      stage->apply_update(update_at(options.optimizer, step.step, 1.0));
      allocations += data::allocation_count() - before;
    }
    CHECK(allocations == 0);
    // 4 blocks, 4 microbatches; with recompute each forward runs twice and no more.
    CHECK(device.null_operators.attention_forwards == (recompute ? 32 : 16));
  }
}

TEST_CASE("stage: bf16 on a device without it is refused with its name") {
  NullDevice device;
  device.bf16 = false;
  auto stream = device.make_stream();
  StageOptions options = whole_model(tiny_gpt2());
  options.model.precision = Precision::kBf16;
  options.device = &device;
  options.stream = stream.get();
  const auto stage = Stage::create(options);
  CHECK(stage.status().code() == StatusCode::kConfig);
  CHECK(stage.status().message().find("(null)") != std::string::npos);
}

TEST_CASE("stage: forward only gives the loss of training without dropout") {
  ModelSpec model = tiny_gpt2();
  PipelineOptions trained;
  trained.model = model;
  Pipeline pipeline(trained);
  const std::vector<double> expected = pipeline.step(StepIndex(1), false).losses;

  model.dropout = 0.5F;
  auto device = kernels::make_cpu_device({});
  auto stream = device->make_stream();
  StageOptions options = whole_model(model);
  options.training = false;
  options.device = device.get();
  options.stream = stream.get();
  const kernels::Buffer workspace =
      device->allocate(static_cast<std::size_t>(stage_bytes(options)->workspace));
  options.workspace = workspace.data();
  const auto stage = Stage::create(options).value();
  const auto tokens = random_tokens(48, 11, 3);
  std::vector<std::int32_t> inputs, targets;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i % 6 != 5) inputs.push_back(tokens[i]);
    if (i % 6 != 0) targets.push_back(tokens[i]);
  }
  StepContext step;
  step.inputs = inputs.data();
  step.targets = targets.data();
  stage->begin_step(step);
  for (std::int32_t m = 0; m < 4; ++m) stage->forward(MicrobatchIndex(m), nullptr, nullptr);
  stream->synchronize();
  const auto losses = stage->loss_sums();
  CHECK(std::vector<double>(losses.begin(), losses.end()) == expected);
  CHECK(stage->gradient("head.weight") == nullptr);
}

TEST_CASE("stage: state lists weights and moments in global order") {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.model.tied = true;
  options.partition = split(options.model, 2);
  Pipeline pipeline(options);
  const std::vector<StateTensor> first = pipeline.stage(0).state();
  CHECK(first[0].name == "embedding.token.weight");
  CHECK(first[1].name == "embedding.token.weight#moment1");
  CHECK(first[2].name == "embedding.token.weight#moment2");
  CHECK(first[3].name == "embedding.position.weight");
  CHECK(first[0].order == 0);
  CHECK(first[1].order == 1);
  CHECK_FALSE(first[0].copy);
  // The head's end of the tied matrix has the order of the embedding's and says that it is a copy.
  const std::vector<StateTensor> last = pipeline.stage(1).state();
  CHECK(last[0].name == "embedding.token.weight");
  CHECK(last[0].copy);
  for (const auto& tensors : {first, last}) {
    CHECK(std::is_sorted(
        tensors.begin(), tensors.end(),
        [](const StateTensor& a, const StateTensor& b) { return a.order < b.order; }));
  }
  CHECK(pipeline.stage(0).exchanges_tied());
  CHECK(pipeline.stage(1).tied_count() == 11 * 8);
  (void)pipeline.step(StepIndex(1));
  // The norm counts the matrix once: at the embedding.
  CHECK(pipeline.stage(0).read_square_sums()[0].order == 0);
  CHECK(pipeline.stage(1).read_square_sums()[0].order > 0);
}

TEST_CASE("stage: weight decay touches matrices only") {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.optimizer.decay = DecayKind::kConstant;
  options.optimizer.learning_rate = 1e-2;
  Pipeline plain(options);
  options.optimizer.weight_decay = 0.5;
  Pipeline decayed(options);
  (void)plain.step(StepIndex(1));
  (void)decayed.step(StepIndex(1));
  const Tensors a = plain.state(), b = decayed.state();
  CHECK(a.at("head.weight") != b.at("head.weight"));
  CHECK(a.at("embedding.token.weight") != b.at("embedding.token.weight"));
  CHECK(a.at("block.1.attn.qkv.weight") != b.at("block.1.attn.qkv.weight"));
  CHECK(a.at("norm.weight") == b.at("norm.weight"));
  CHECK(a.at("block.1.norm1.weight") == b.at("block.1.norm1.weight"));
  CHECK(a.at("block.1.mlp.up.bias") == b.at("block.1.mlp.up.bias"));
}

TEST_CASE("stage: sgd with momentum steps as its formula says") {
  PipelineOptions options;
  options.model = tiny_mlp();
  options.optimizer.kind = OptimizerKind::kSgd;
  options.optimizer.decay = DecayKind::kConstant;
  options.optimizer.learning_rate = 0.5;
  options.optimizer.momentum = 0.9;
  Pipeline pipeline(options);
  const std::vector<float> start = pipeline.state().at("norm.bias");
  const std::vector<float> first = pipeline.step(StepIndex(1)).gradients.at("norm.bias");
  const std::vector<float> second = pipeline.step(StepIndex(2)).gradients.at("norm.bias");
  const std::vector<float> end = pipeline.state().at("norm.bias");
  for (std::size_t i = 0; i < start.size(); ++i) {
    const float expected = start[i] - 0.5F * first[i] - 0.5F * (0.9F * first[i] + second[i]);
    CHECK(end[i] == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("stage: the replay names the first value that is not finite") {
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.partition = split(options.model, 2);
  options.microbatches = 3;
  {
    Pipeline pipeline(options);
    CHECK_FALSE(replay(pipeline, 0).found);
    CHECK_FALSE(replay(pipeline, 1).found);
    put_value(pipeline, "block.1.mlp.up.weight", 3, std::numeric_limits<float>::quiet_NaN());
    const NonFinite weight = replay(pipeline, 0);
    CHECK(weight.found);
    CHECK(weight.tensor == "weight block.1.mlp.up.weight");
    CHECK(weight.layer == LayerIndex(2));
  }
  {
    // Finite weights whose product overflows: seen at the output of the block, in microbatch 0.
    Pipeline pipeline(options);
    pipeline.set_weight("block.0.mlp.up.weight", std::vector<float>(kMatrix, 1e30F));
    pipeline.set_weight("block.0.mlp.up.bias", std::vector<float>(20, 3e38F));
    pipeline.set_weight("block.0.mlp.down.weight", std::vector<float>(kMatrix, 3e38F));
    const NonFinite output = replay(pipeline, 0);
    CHECK(output.found);
    CHECK_FALSE(output.backward);
    CHECK(output.tensor == "output");
    CHECK(output.layer == LayerIndex(1));
    CHECK(output.microbatch == MicrobatchIndex(0));
    // A later replay of healthy weights does not show what the older one found.
    pipeline.set_weight("block.0.mlp.up.bias", std::vector<float>(20, 0.0F));
    pipeline.set_weight("block.0.mlp.up.weight", std::vector<float>(kMatrix, 0.0F));
    pipeline.set_weight("block.0.mlp.down.weight", std::vector<float>(kMatrix, 0.0F));
    CHECK_FALSE(replay(pipeline, 0).found);
  }
  {
    // Token 7 stands in microbatch 2 only: its row overflows there and nowhere else.
    Pipeline pipeline(options);
    std::vector<std::int32_t> tokens(36, 1);  // 3 microbatches of 2 sequences of 5 + 1
    tokens[26] = 7;
    pipeline.set_tokens(tokens);
    const float huge = 3e38F;
    std::vector<float> token = pipeline.state().at("embedding.token.weight");
    std::fill_n(token.begin(), 56, -huge);
    std::fill_n(token.begin() + 56, 8, huge);
    pipeline.set_weight("embedding.token.weight", token);
    pipeline.set_weight("embedding.position.weight", std::vector<float>(kPositions, huge));
    const NonFinite found = replay(pipeline, 0);
    CHECK(found.found);
    CHECK(found.microbatch == MicrobatchIndex(2));
    CHECK(found.tensor == "output");
    CHECK(found.layer == LayerIndex(0));
  }
  {
    // Logits are zero, so the loss is finite; the way back through huge weights is not.
    options.loss_tokens = 1;
    Pipeline pipeline(options);
    std::vector<float> head(kTokens);
    for (std::size_t i = 0; i < head.size(); ++i) head[i] = i / 8 % 2 == 0 ? 3e38F : -3e38F;
    pipeline.set_weight("head.weight", head);
    pipeline.set_weight("norm.weight", std::vector<float>(8, 0.0F));
    const NonFinite found = replay(pipeline, 1);
    CHECK(found.found);
    CHECK(found.backward);
  }
}

TEST_CASE("stage: options that do not fit are refused with the numbers") {
  StageOptions options = whole_model(tiny_gpt2());
  options.reduction_blocks = 3;
  CHECK(refusal(options) == "stage 0: 3 reduction blocks do not divide 4 microbatches");
  options = whole_model(tiny_gpt2());
  options.shape = {2, 7};
  CHECK(refusal(options).find("at most 6 positions") != std::string::npos);
  options = whole_model(tiny_gpt2());
  options.layers.clear();
  CHECK(refusal(options) == "stage 0: holds no layer");
  options = whole_model(tiny_gpt2());
  options.layers.erase(options.layers.begin() + 2);
  CHECK(refusal(options) == "stage 0: layers 1 and 3 are not consecutive");
  options = whole_model(tiny_gpt2());
  options.layers[1].kind = "blocks";
  CHECK(refusal(options) ==
        "stage 0: unknown layer kind 'blocks'; the nearest known one is 'block'");
  options = whole_model(tiny_gpt2());
  options.layers[2].number = 0;
  CHECK(refusal(options) == "stage 0: two layers name a parameter 'block.0.norm1.weight'");
}

}  // namespace headrace::stages::test
