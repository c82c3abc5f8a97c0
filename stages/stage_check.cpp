// The replay of a step whose norm was not finite: every value a layer makes is searched, and the
// first offender in causal order is named.
#include "stages/detail/stage_impl.hpp"

#include <cmath>

namespace headrace::stages {

std::int64_t* Stage::Impl::check_slot(MicrobatchIndex m, std::int64_t check) const {
  const auto weights = static_cast<std::int64_t>(plan_.parameters.size());
  return check_memory_.as<std::int64_t>() + weights + m.value * plan_.checks_per_microbatch + check;
}

// Values that this replay does not reach must not show what an older one found there.
void Stage::Impl::clear_checks() {
  operators_.copy(stream_, unchecked_memory_.data(), check_memory_.data(),
                  static_cast<std::int64_t>(checks_.size() * sizeof(std::int64_t)));
}

void Stage::Impl::check_weights() {
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    kernels::FindNonFiniteArgs args;
    args.x = {weights_[i].weight, kernels::DType::kF32};
    args.count = plan_.parameters[i].spec.count();
    args.result = check_memory_.as<std::int64_t>() + i;
    operators_.find_non_finite(stream_, args);
  }
}

void Stage::Impl::check_value(std::size_t layer, MicrobatchIndex m, CheckPart part,
                              kernels::ConstRef value) {
  if (!step_.check_finite || value.data == nullptr) return;
  kernels::FindNonFiniteArgs args;
  args.x = value;
  args.count = boundary_elements_;
  args.result =
      check_slot(m, plan_.layers[layer].first_check + (part == CheckPart::kOutput ? 0 : 1));
  operators_.find_non_finite(stream_, args);
}

// Gradients are running sums: the first microbatch with a finding is the offender.
void Stage::Impl::check_gradients(std::size_t layer, MicrobatchIndex m) {
  if (!step_.check_finite) return;
  const PlannedLayer& planned = plan_.layers[layer];
  for (std::size_t k = 0; k < planned.uses.size(); ++k) {
    if (views_[layer][k].gradient == nullptr) continue;
    kernels::FindNonFiniteArgs args;
    args.x = {views_[layer][k].gradient, kernels::DType::kF32};
    args.count = plan_.parameters[planned.uses[k].parameter].spec.count();
    args.result = check_slot(m, planned.first_check + 2 + static_cast<std::int64_t>(k));
    operators_.find_non_finite(stream_, args);
  }
}

bool Stage::Impl::check_failed_at(MicrobatchIndex m, std::int64_t check) const {
  const auto weights = static_cast<std::int64_t>(plan_.parameters.size());
  return checks_[static_cast<std::size_t>(weights + m.value * plan_.checks_per_microbatch +
                                          check)] >= 0;
}

NonFinite Stage::Impl::first_in_forward(MicrobatchIndex m) {
  NonFinite found;
  found.microbatch = m;
  for (const PlannedLayer& layer : plan_.layers) {
    found.layer = layer.spec.index;
    found.found = check_failed_at(m, layer.first_check);
    found.tensor = "output";
    if (found.found) return found;
  }
  // A head has no output tensor; its result is the loss.
  if (!losses_.empty() && !std::isfinite(losses_[m.index()])) {
    found.found = true;
    found.tensor = "loss";
  }
  return found;
}

NonFinite Stage::Impl::first_in_backward(MicrobatchIndex m) {
  NonFinite found;
  found.microbatch = m;
  found.backward = true;
  for (std::size_t i = plan_.layers.size(); i-- > 0;) {
    const PlannedLayer& layer = plan_.layers[i];
    found.layer = layer.spec.index;
    found.found = check_failed_at(m, layer.first_check + 1);
    found.tensor = "input gradient";
    if (found.found) return found;
    for (std::size_t k = 0; k < layer.uses.size(); ++k) {
      found.found = check_failed_at(m, layer.first_check + 2 + static_cast<std::int64_t>(k));
      found.tensor = "gradient of " + plan_.parameters[layer.uses[k].parameter].spec.name;
      if (found.found) return found;
    }
  }
  return found;
}

NonFinite Stage::Impl::first_non_finite() {
  options_.device->copy_to_host(checks_.data(), check_memory_.data(),
                                checks_.size() * sizeof(std::int64_t));
  (void)loss_sums();
  for (const PlannedLayer& layer : plan_.layers) {
    for (const PlannedUse& use : layer.uses) {
      if (checks_[use.parameter] < 0) continue;
      NonFinite found;
      found.found = true;
      found.layer = layer.spec.index;
      found.tensor = "weight " + plan_.parameters[use.parameter].spec.name;
      return found;
    }
  }
  const std::int32_t end = plan_.first_microbatch + plan_.own_microbatches;
  for (std::int32_t m = plan_.first_microbatch; m < end; ++m) {
    NonFinite found = first_in_forward(MicrobatchIndex(m));
    if (!found.found) found = first_in_backward(MicrobatchIndex(m));
    if (found.found) return found;
  }
  return {};
}

}  // namespace headrace::stages
