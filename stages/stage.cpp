// The microbatches of a stage: each layer in turn, forward and back.
#include "stages/stage.hpp"

#include "stages/detail/carver.hpp"
#include "stages/detail/stage_impl.hpp"

#include <algorithm>

namespace headrace::stages {

void Stage::Impl::begin_step(const StepContext& step) {
  if (options_.training) HEADRACE_CHECK(frames_in_use() == 0, frames_in_use());
  step_ = step;
  weights_done_ = 0;
  stack_.clear();
  reduced_ = false;
  tied_added_ = false;
  point_views_at(0);
  if (step_.check_finite) {
    clear_checks();
    check_weights();
  }
}

kernels::Ref Stage::Impl::inner_value(std::size_t which) const {
  return {options_.workspace + static_cast<std::int64_t>(which % 2) * plan_.inner_bytes,
          plan_.inner_type};
}

std::byte* Stage::Impl::layer_workspace() const {
  if (options_.workspace == nullptr) return nullptr;
  return options_.workspace + plan_.inner_values * plan_.inner_bytes;
}

// A layer's output lies in the stash when its next layer wants it in backward, else it only has to
// live until that layer has read it.
kernels::Ref Stage::Impl::output_of(std::size_t layer, MicrobatchIndex m, void* y) const {
  if (layer + 1 == plan_.layers.size()) return {y, boundary_type_};
  const PlannedLayer& planned = plan_.layers[layer];
  if (!planned.output_kept) return inner_value(layer);
  return {stash_.at(m) + planned.output_offset, plan_.inner_type};
}

kernels::ConstRef Stage::Impl::input_of(std::size_t layer, MicrobatchIndex m) const {
  if (layer == 0) return {inputs_[m.index()], boundary_type_};
  return output_of(layer - 1, m, nullptr);
}

LayerCall Stage::Impl::call_for(std::size_t layer, MicrobatchIndex m) const {
  LayerCall call{.stream = stream_, .operators = operators_, .step = step_};
  call.shape = options_.shape;
  call.microbatch = m;
  call.parameters = views_[layer];
  call.workspace = layer_workspace();
  const std::int64_t first_token = m.value * options_.shape.rows();
  if (step_.inputs != nullptr) call.inputs = step_.inputs + first_token;
  if (step_.targets != nullptr) call.targets = step_.targets + first_token;
  if (!losses_.empty()) call.loss_sum = loss_memory_.as<double>() + m.value;
  const PlannedLayer& planned = plan_.layers[layer];
  if (!planned.lent_frames) return call;
  // Nothing of this layer is wanted again: it keeps its values in the workspace of this call.
  Carver arena(call.workspace);
  call.stash = arena.bytes(planned.bytes.stash);
  call.weight_forward = arena.bytes(planned.bytes.weight_forward);
  call.workspace = arena.bytes(planned.bytes.workspace);
  return call;
}

void Stage::Impl::forward(MicrobatchIndex m, const void* x, void* y) {
  if (options_.training) {
    stash_.take(m);
    weight_forward_.take(m);
    inputs_[m.index()] = x;
  }
  kernels::ConstRef input{x, boundary_type_};
  for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
    const PlannedLayer& planned = plan_.layers[i];
    LayerCall call = call_for(i, m);
    if (!planned.lent_frames) {
      call.stash = stash_.at(m) + planned.stash_offset;
      call.weight_forward = weight_forward_.at(m) + planned.weight_forward_offset;
    }
    call.x = input;
    call.y = output_of(i, m, y);
    planned.layer->forward(call);
    check_value(i, m, CheckPart::kOutput, call.y);
    input = call.y;
  }
}

void Stage::Impl::backward_input(MicrobatchIndex m, const void* dy, void* dx) {
  HEADRACE_CHECK(options_.training, "stage", options_.stage.value, "was built forward only");
  HEADRACE_CHECK(dx != nullptr || !plan_.gives_input_gradient, "stage", options_.stage.value);
  weight_backward_.take(m);
  kernels::ConstRef gradient{dy, boundary_type_};
  for (std::size_t i = plan_.layers.size(); i-- > plan_.lowest_backward;) {
    const PlannedLayer& planned = plan_.layers[i];
    LayerCall call = call_for(i, m);
    call.stash = stash_.at(m) + planned.stash_offset;
    call.weight_forward = weight_forward_.at(m) + planned.weight_forward_offset;
    call.weight_backward = weight_backward_.at(m) + planned.weight_backward_offset;
    call.x = input_of(i, m);
    call.dy = gradient;
    if (i > plan_.lowest_backward) {
      call.dx = inner_value(i);
    } else if (plan_.gives_input_gradient) {
      call.dx = {dx, boundary_type_};
    }
    planned.layer->backward_input(call);
    check_value(i, m, CheckPart::kInputGradient, call.dx);
    gradient = call.dx;
  }
  stash_.release(m);
}

void Stage::Impl::backward_weight(MicrobatchIndex m) {
  // BrokenRule::kAddingOrder is the runtime's to break; only then is any order let through.
  const std::int32_t expected = plan_.first_microbatch + weights_done_;
  HEADRACE_CHECK(m.value == expected || options_.broken_rule == BrokenRule::kAddingOrder, "stage",
                 options_.stage.value, "microbatch", m.value, "expected", expected);
  if (weights_done_ % plan_.block_microbatches == 0) open_block();
  for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
    const PlannedLayer& planned = plan_.layers[i];
    if (!planned.trainable) continue;
    LayerCall call = call_for(i, m);
    call.weight_forward = weight_forward_.at(m) + planned.weight_forward_offset;
    call.weight_backward = weight_backward_.at(m) + planned.weight_backward_offset;
    planned.layer->backward_weight(call);
    check_gradients(i, m);
  }
  weight_forward_.release(m);
  weight_backward_.release(m);
  ++weights_done_;
  if (weights_done_ % plan_.block_microbatches == 0) close_block();
}

bool Stage::Impl::has_kind(std::string_view kind) const {
  return std::any_of(plan_.layers.begin(), plan_.layers.end(),
                     [&](const PlannedLayer& layer) { return layer.spec.kind == kind; });
}

std::span<const double> Stage::Impl::loss_sums() {
  if (!losses_.empty()) {
    options_.device->copy_to_host(losses_.data(), loss_memory_.data(),
                                  losses_.size() * sizeof(double));
  }
  const auto first = static_cast<std::size_t>(plan_.first_microbatch);
  const auto count = static_cast<std::size_t>(plan_.own_microbatches);
  return losses_.empty() ? std::span<const double>() : std::span(losses_).subspan(first, count);
}

Stage::Stage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Stage::~Stage() = default;

Result<std::unique_ptr<Stage>> Stage::create(const StageOptions& options) {
  HEADRACE_CHECK(options.device != nullptr && options.stream != nullptr, options.stage.value);
  if (options.model.precision == Precision::kBf16 && !options.device->supports_bf16()) {
    return Status(StatusCode::kConfig,
                  "run.precision: bf16 needs a bf16 matrix product, which this device (" +
                      options.device->numerics_id() + ") lacks; use fp32");
  }
  auto plan = make_plan(options);
  if (!plan.is_ok()) return plan.status();
  HEADRACE_CHECK(options.workspace != nullptr || plan->bytes.workspace == 0, options.stage.value);
  return std::unique_ptr<Stage>(
      new Stage(std::make_unique<Impl>(options, std::move(plan).value())));
}

void Stage::begin_step(const StepContext& step) { impl_->begin_step(step); }
void Stage::forward(MicrobatchIndex m, const void* x, void* y) { impl_->forward(m, x, y); }
void Stage::backward_input(MicrobatchIndex m, const void* dy, void* dx) {
  impl_->backward_input(m, dy, dx);
}
void Stage::backward_weight(MicrobatchIndex m) { impl_->backward_weight(m); }
const std::byte* Stage::roots() const { return impl_->roots(); }
void Stage::reduce_gradients(std::span<std::byte* const> roots) { impl_->reduce_gradients(roots); }
bool Stage::has_embedding() const { return impl_->has_kind("embedding"); }
bool Stage::has_head() const { return impl_->has_kind("head"); }
bool Stage::exchanges_tied() const { return impl_->exchanges_tied(); }
const float* Stage::tied_part() const { return impl_->tied_part(); }
std::int64_t Stage::tied_count() const { return impl_->tied_count(); }
void Stage::add_tied_part(const float* other_end) { impl_->add_tied_part(other_end); }
void Stage::square_sums() { impl_->square_sums(); }
std::span<const SquareSum> Stage::read_square_sums() { return impl_->read_square_sums(); }
std::span<const double> Stage::loss_sums() const { return impl_->loss_sums(); }
void Stage::apply_update(const UpdateContext& update) { impl_->apply_update(update); }
NonFinite Stage::first_non_finite() { return impl_->first_non_finite(); }
std::vector<StateTensor> Stage::state() { return impl_->state(); }
void Stage::weights_changed() { impl_->weights_changed(); }
std::vector<ParameterSpec> Stage::parameters() const { return impl_->parameters(); }
const float* Stage::gradient(std::string_view name) const { return impl_->gradient(name); }
std::int32_t Stage::frames_in_use() const { return impl_->frames_in_use(); }
MicrobatchIndex Stage::first_microbatch() const { return impl_->first_microbatch(); }

}  // namespace headrace::stages
