// A stage's memory: allocated once, at creation, and given its first values.
#include "stages/detail/stage_impl.hpp"

#include <algorithm>

namespace headrace::stages {
namespace {

constexpr std::size_t kFloatBytes = sizeof(float);
constexpr std::size_t kMirrorBytes = 2;

std::size_t size_of(std::int64_t count, std::size_t each) {
  return static_cast<std::size_t>(count) * each;
}

}  // namespace

Stage::Impl::Impl(const StageOptions& options, StagePlan plan)
    : options_(options),
      plan_(std::move(plan)),
      stream_(*options.stream),
      operators_(options.device->operators()),
      boundary_elements_(options.shape.rows() * options.model.width),
      boundary_type_(boundary_dtype(options.model)) {
  allocate();
  std::size_t roots = 0;
  for (const std::vector<Subtree>& of_replica : plan_.roots) roots += of_replica.size();
  stack_.reserve(roots + static_cast<std::size_t>(plan_.accumulators));
  own_roots_.reserve(stack_.capacity());
  place_weights();
  make_views();
  borrow_tied();
  initialise();
}

void Stage::Impl::allocate() {
  kernels::Device& device = *options_.device;
  weight_memory_ = device.allocate(size_of(plan_.weight_elements, kFloatBytes));
  mirror_memory_ = device.allocate(size_of(plan_.mirror_elements, kMirrorBytes));
  moment_memory_ = device.allocate(size_of(plan_.moment_elements * plan_.moments, kFloatBytes));
  gradient_memory_ =
      device.allocate(size_of(plan_.gradient_elements * plan_.accumulators, kFloatBytes));
  if (options_.training) {
    const std::int32_t microbatches = options_.microbatches;
    stash_ = FramePool(device, {plan_.bytes.stash, options_.frames.stash, microbatches});
    weight_forward_ =
        FramePool(device, {plan_.bytes.weight_forward, options_.frames.activation, microbatches});
    weight_backward_ = FramePool(
        device, {plan_.bytes.weight_backward, options_.frames.weight_inputs, microbatches});
    inputs_.resize(static_cast<std::size_t>(microbatches));
  }
  if (has_kind("head")) {
    losses_.resize(static_cast<std::size_t>(options_.microbatches));
    loss_memory_ = device.allocate(losses_.size() * sizeof(double));
  }
  for (const PlannedParameter& parameter : plan_.parameters) {
    if (counts_in_norm(parameter)) squares_.push_back({parameter.order, 0});
  }
  std::sort(squares_.begin(), squares_.end(),
            [](const SquareSum& a, const SquareSum& b) { return a.order < b.order; });
  square_values_.resize(squares_.size());
  square_memory_ = device.allocate(squares_.size() * sizeof(double));
  checks_.resize(plan_.parameters.size() +
                     static_cast<std::size_t>(plan_.checks_per_microbatch * options_.microbatches),
                 -1);
  const std::size_t check_bytes = checks_.size() * sizeof(std::int64_t);
  check_memory_ = device.allocate(check_bytes);
  unchecked_memory_ = device.allocate(check_bytes);
  device.copy_from_host(unchecked_memory_.data(), checks_.data(), check_bytes);
}

void Stage::Impl::place_weights() {
  weights_.resize(plan_.parameters.size());
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const PlannedParameter& parameter = plan_.parameters[i];
    Weights& weights = weights_[i];
    if (parameter.mirrored) {
      weights.mirror = mirror_memory_.data() + size_of(parameter.mirror_offset, kMirrorBytes);
    }
    if (parameter.borrowed) continue;
    weights.weight = weight_memory_.as<float>() + parameter.weight_offset;
    if (parameter.moment_offset == kNone) continue;
    for (std::int32_t k = 0; k < plan_.moments; ++k) {
      weights.moments[k] =
          moment_memory_.as<float>() + plan_.moment_elements * k + parameter.moment_offset;
    }
  }
}

// The head of a tied model on the embedding's rank reads the embedding's matrix; in bf16 the
// embedding's update also keeps this stage's mirror in step.
void Stage::Impl::borrow_tied() {
  if (options_.tied_embedding == nullptr) return;
  Impl& embedding = *options_.tied_embedding->impl_;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (!plan_.parameters[i].borrowed) continue;
    const auto lender = std::find_if(
        embedding.plan_.parameters.begin(), embedding.plan_.parameters.end(),
        [&](const PlannedParameter& p) { return p.spec.name == plan_.parameters[i].spec.name; });
    HEADRACE_CHECK(lender != embedding.plan_.parameters.end(), plan_.parameters[i].spec.name);
    HEADRACE_CHECK(lender->trainable == plan_.parameters[i].trainable, lender->spec.name);
    Weights& lent =
        embedding.weights_[static_cast<std::size_t>(lender - embedding.plan_.parameters.begin())];
    weights_[i].weight = lent.weight;
    if (weights_[i].mirror != nullptr) lent.mirror = weights_[i].mirror;
    tied_partner_ = &embedding;
    embedding.tied_partner_ = this;
  }
  make_views();
}

kernels::ConstRef Stage::Impl::gemm_operand(std::size_t parameter) const {
  const Weights& weights = weights_[parameter];
  if (weights.mirror != nullptr) return {weights.mirror, kernels::DType::kBf16};
  return {weights.weight, kernels::DType::kF32};
}

void Stage::Impl::make_views() {
  views_.assign(plan_.layers.size(), {});
  for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
    for (const PlannedUse& use : plan_.layers[i].uses) {
      ParameterView view;
      view.weight = weights_[use.parameter].weight;
      view.gemm = gemm_operand(use.parameter);
      views_[i].push_back(view);
    }
  }
  point_views_at(0);
}

// A parameter's first values depend on the seed and its place in the model, not on the stage.
void Stage::Impl::initialise() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const PlannedParameter& parameter = plan_.parameters[i];
    if (parameter.borrowed) continue;
    const std::int64_t count = parameter.spec.count();
    if (parameter.spec.init != InitKind::kNormal) {
      const float value = parameter.spec.init == InitKind::kOnes ? 1.0F : 0.0F;
      operators_.fill(stream_, weights_[i].weight, value, count);
      continue;
    }
    kernels::FillNormalArgs args;
    args.x = weights_[i].weight;
    args.count = count;
    args.deviation = parameter.spec.deviation;
    args.key = kernels::key_of_seed(options_.model.seed);
    args.sample = static_cast<std::uint32_t>(parameter.order);
    if (options_.broken_rule == BrokenRule::kInitByStage) {
      args.sample = static_cast<std::uint32_t>(i);
    }
    args.site = kernels::make_site(0, kernels::RandomUse::kInit);
    operators_.fill_normal(stream_, args);
  }
  weights_changed();
  stream_.synchronize();
}

void Stage::Impl::weights_changed() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i].mirror == nullptr) continue;
    operators_.convert(stream_, {weights_[i].weight, kernels::DType::kF32},
                       {weights_[i].mirror, kernels::DType::kBf16},
                       plan_.parameters[i].spec.count());
  }
}

std::vector<StateTensor> Stage::Impl::state() {
  std::vector<StateTensor> tensors;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const PlannedParameter& parameter = plan_.parameters[i];
    if (parameter.borrowed) continue;
    StateTensor tensor;
    tensor.shape = parameter.spec.shape;
    tensor.count = parameter.spec.count();
    tensor.copy = parameter.copy;
    for (int k = 0; k <= 2; ++k) {
      tensor.data = k == 0 ? weights_[i].weight : weights_[i].moments[k - 1];
      if (tensor.data == nullptr) continue;
      tensor.order = parameter.order * 4 + k;
      tensor.name = parameter.spec.name + (k == 0 ? "" : "#moment" + std::to_string(k));
      tensors.push_back(tensor);
    }
  }
  std::sort(tensors.begin(), tensors.end(),
            [](const StateTensor& a, const StateTensor& b) { return a.order < b.order; });
  return tensors;
}

std::vector<ParameterSpec> Stage::Impl::parameters() const {
  std::vector<const PlannedParameter*> held;
  for (const PlannedParameter& parameter : plan_.parameters) {
    if (!parameter.borrowed) held.push_back(&parameter);
  }
  std::sort(held.begin(), held.end(),
            [](const auto* a, const auto* b) { return a->order < b->order; });
  std::vector<ParameterSpec> specs;
  specs.reserve(held.size());
  for (const PlannedParameter* parameter : held) specs.push_back(parameter->spec);
  return specs;
}

}  // namespace headrace::stages
