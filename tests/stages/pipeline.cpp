#include "tests/stages/pipeline.hpp"

#include <cmath>
#include <cstring>
#include <random>

namespace headrace::stages::test {

Pipeline::Pipeline(const PipelineOptions& options) : options_(options) {
  if (options_.partition.empty()) options_.partition = {layer_list(options_.model)};
  const std::size_t count = options_.partition.size();
  if (options_.rank_of.empty()) {
    for (std::size_t s = 0; s < count; ++s) {
      options_.rank_of.push_back(static_cast<std::int32_t>(s));
    }
  }
  device_ = kernels::make_cpu_device({.queued = options_.queued,
                                      .delay_seed = options_.queued ? 7U : 0U,
                                      .delay_us_max = 20,
                                      .broken_rule = options_.broken_rule});
  stream_ = device_->make_stream();
  const std::int32_t frames = options_.order == Order::kFillDrain ? options_.microbatches : 1;
  bool trains_below = false;
  for (std::size_t s = 0; s < count; ++s) {
    StageOptions stage;
    stage.model = options_.model;
    stage.stage = StageIndex(static_cast<std::int32_t>(s));
    stage.layers = options_.partition[s];
    stage.shape = options_.shape;
    stage.microbatches = options_.microbatches;
    stage.reduction_blocks = options_.reduction_blocks;
    stage.frames = {frames, frames, frames};
    stage.optimizer = options_.optimizer;
    stage.input_gradient = trains_below;
    stage.device = device_.get();
    stage.stream = stream_.get();
    stage.broken_rule = options_.broken_rule;
    const bool last = s + 1 == count;
    if (options_.model.tied && last && count > 1 && options_.rank_of[0] == options_.rank_of[s]) {
      stage.tied_embedding = stages_[0].get();
    }
    const auto bytes = stage_bytes(stage);
    HEADRACE_CHECK(bytes.is_ok(), bytes.status().message());
    workspaces_.push_back(device_->allocate(static_cast<std::size_t>(bytes->workspace)));
    stage.workspace = workspaces_.back().data();
    auto built = Stage::create(stage);
    HEADRACE_CHECK(built.is_ok(), built.status().message());
    stages_.push_back(std::move(*built));
    for (const LayerSpec& layer : stage.layers) trains_below = trains_below || !layer.frozen;
    trains_.push_back(trains_below);
  }
  const std::int64_t boundary_count = static_cast<std::int64_t>(2 * count) * options_.microbatches;
  boundaries_ = device_->allocate(
      static_cast<std::size_t>(boundary_count * boundary_bytes(options_.model, options_.shape)));
  const auto rows = static_cast<std::size_t>(options_.microbatches * options_.shape.rows());
  inputs_ = device_->allocate(rows * sizeof(std::int32_t));
  targets_ = device_->allocate(rows * sizeof(std::int32_t));
  set_tokens(
      random_tokens(static_cast<std::int64_t>(rows) + options_.microbatches * options_.shape.batch,
                    options_.model.vocabulary, 3));
}

std::int64_t Pipeline::tokens_per_step() const {
  return options_.microbatches * options_.shape.rows();
}

void Pipeline::set_tokens(const std::vector<std::int32_t>& tokens) {
  const auto positions = static_cast<std::size_t>(options_.shape.positions);
  std::vector<std::int32_t> inputs, targets;
  for (std::size_t first = 0; first + positions < tokens.size(); first += positions + 1) {
    for (std::size_t t = 0; t < positions; ++t) {
      inputs.push_back(tokens[first + t]);
      targets.push_back(tokens[first + t + 1]);
    }
  }
  HEADRACE_CHECK(static_cast<std::int64_t>(inputs.size()) == tokens_per_step(), inputs.size());
  device_->copy_from_host(inputs_.data(), inputs.data(), inputs.size() * sizeof(std::int32_t));
  set_targets(targets);
}

void Pipeline::set_targets(const std::vector<std::int32_t>& targets) {
  device_->copy_from_host(targets_.data(), targets.data(), targets.size() * sizeof(std::int32_t));
}

std::byte* Pipeline::boundary(std::size_t stage, MicrobatchIndex m, bool gradient) {
  const std::size_t slot =
      (stage * static_cast<std::size_t>(options_.microbatches) + m.index()) * 2 +
      (gradient ? 1 : 0);
  return boundaries_.data() +
         slot * static_cast<std::size_t>(boundary_bytes(options_.model, options_.shape));
}

void Pipeline::forward(MicrobatchIndex m) {
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const void* x = s == 0 ? nullptr : boundary(s - 1, m, false);
    void* y = s + 1 == stages_.size() ? nullptr : boundary(s, m, false);
    stages_[s]->forward(m, x, y);
    most_frames_ = std::max(most_frames_, stages_[s]->frames_in_use());
  }
}

void Pipeline::backward_input(MicrobatchIndex m) {
  for (std::size_t s = stages_.size(); s-- > 0;) {
    const void* dy = s + 1 == stages_.size() || !trains_[s] ? nullptr : boundary(s, m, true);
    void* dx = s == 0 || !trains_[s - 1] ? nullptr : boundary(s - 1, m, true);
    stages_[s]->backward_input(m, dy, dx);
  }
}

void Pipeline::backward_weight(MicrobatchIndex m) {
  for (auto& stage : stages_) stage->backward_weight(m);
}

void Pipeline::exchange_tied() {
  Stage& first = *stages_.front();
  Stage& last = *stages_.back();
  if (stages_.size() < 2 || !first.exchanges_tied()) return;
  HEADRACE_CHECK(last.exchanges_tied() && first.tied_count() == last.tied_count());
  stream_->synchronize();
  const auto count = static_cast<std::size_t>(first.tied_count());
  const std::vector<float> embedding(first.tied_part(), first.tied_part() + count);
  const std::vector<float> head(last.tied_part(), last.tied_part() + count);
  first.add_tied_part(head.data());
  last.add_tied_part(embedding.data());
  stream_->synchronize();
}

StepResult Pipeline::step(StepIndex step, bool update, bool check_finite) {
  StepContext context;
  context.step = step;
  context.dropout_key = kernels::key_of_step(options_.model.seed, step.value, 0);
  context.loss_scale = 1.0F / static_cast<float>(options_.loss_tokens > 0 ? options_.loss_tokens
                                                                          : tokens_per_step());
  context.inputs = inputs_.as<std::int32_t>();
  context.targets = targets_.as<std::int32_t>();
  context.check_finite = check_finite;
  for (auto& stage : stages_) stage->begin_step(context);
  const auto each = [&](auto&& work) {
    for (std::int32_t m = 0; m < options_.microbatches; ++m) work(MicrobatchIndex(m));
  };
  if (options_.order == Order::kFillDrain) {
    each([&](MicrobatchIndex m) { forward(m); });
    each([&](MicrobatchIndex m) { backward_input(m); });
    each([&](MicrobatchIndex m) { backward_weight(m); });
  } else {
    each([&](MicrobatchIndex m) {
      forward(m);
      backward_input(m);
      backward_weight(m);
    });
  }
  for (auto& stage : stages_) stage->reduce_gradients();
  exchange_tied();
  for (auto& stage : stages_) stage->square_sums();
  stream_->synchronize();
  HEADRACE_CHECK(!stream_->failed(), stream_->failure().message());

  // A broken rule may pull the ends of a tied matrix apart.
  const bool ends_may_differ = options_.broken_rule != BrokenRule::kNone;
  StepResult result;
  std::map<std::int64_t, double> squares;
  for (auto& stage : stages_) {
    for (const SquareSum& square : stage->read_square_sums()) squares[square.order] += square.value;
    for (const ParameterSpec& parameter : stage->parameters()) {
      const float* gradient = stage->gradient(parameter.name);
      if (gradient == nullptr) continue;
      const std::vector<float> values(gradient, gradient + parameter.count());
      const auto [place, added] = result.gradients.emplace(parameter.name, values);
      HEADRACE_CHECK(
          added || ends_may_differ ||
              std::memcmp(place->second.data(), values.data(), values.size() * sizeof(float)) == 0,
          "the two ends of", parameter.name, "differ");
    }
  }
  double sum = 0;
  for (const auto& [order, value] : squares) sum += value;
  result.norm = std::sqrt(sum);
  const auto losses = stages_.back()->loss_sums();
  result.losses.assign(losses.begin(), losses.end());
  if (update) {
    for (auto& stage : stages_) {
      stage->apply_update(update_at(options_.optimizer, step, result.norm));
    }
    stream_->synchronize();
  }
  return result;
}

Tensors Pipeline::state() {
  const bool ends_may_differ = options_.broken_rule != BrokenRule::kNone;
  Tensors state;
  for (auto& stage : stages_) {
    for (const StateTensor& tensor : stage->state()) {
      const std::vector<float> values(tensor.data, tensor.data + tensor.count);
      const auto [place, added] = state.emplace(tensor.name, values);
      HEADRACE_CHECK(added == !tensor.copy || stages_.size() == 1, tensor.name);
      HEADRACE_CHECK(
          added || ends_may_differ ||
              std::memcmp(place->second.data(), values.data(), values.size() * sizeof(float)) == 0,
          "the two ends of", tensor.name, "differ");
    }
  }
  return state;
}

void Pipeline::set_weight(const std::string& name, const std::vector<float>& values) {
  bool found = false;
  for (auto& stage : stages_) {
    for (const StateTensor& tensor : stage->state()) {
      if (tensor.name != name) continue;
      HEADRACE_CHECK(tensor.count == static_cast<std::int64_t>(values.size()), name);
      device_->copy_from_host(tensor.data, values.data(), values.size() * sizeof(float));
      found = true;
    }
  }
  HEADRACE_CHECK(found, name);
  for (auto& stage : stages_) stage->weights_changed();
  stream_->synchronize();
}

std::vector<std::int32_t> random_tokens(std::int64_t count, std::int64_t vocabulary,
                                        std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int32_t& token : tokens) {
    token = static_cast<std::int32_t>(generator() % static_cast<std::uint32_t>(vocabulary));
  }
  return tokens;
}

Partition split(const ModelSpec& model, std::int32_t stages) {
  return automatic_partition(model, {2, 5}, stages).value();
}

std::string differences(const Tensors& a, const Tensors& b) {
  std::string names;
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size() ||
        std::memcmp(values.data(), other->second.data(), values.size() * sizeof(float)) != 0) {
      names += name + " ";
    }
  }
  for (const auto& [name, values] : b) {
    if (a.count(name) == 0) names += name + " ";
  }
  return names;
}

ModelSpec tiny_gpt2() {
  ModelSpec model;
  model.kind = ModelKind::kGpt2;
  model.layers = 4;
  model.width = 8;
  model.heads = 2;
  model.hidden = 20;
  model.context = 6;
  model.vocabulary = 11;
  model.seed = 5;
  return model;
}

ModelSpec tiny_llama() {
  ModelSpec model = tiny_gpt2();
  model.kind = ModelKind::kLlama;
  model.width = 16;
  model.heads = 4;
  model.kv_heads = 2;
  return model;
}

ModelSpec tiny_mlp() {
  ModelSpec model = tiny_gpt2();
  model.kind = ModelKind::kMlp;
  model.activation = kernels::Activation::kGeluExact;
  return model;
}

}  // namespace headrace::stages::test
