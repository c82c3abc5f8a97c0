// A stage's gradients: the tree over the blocks of the step ([Note: gradient tree]), the two ends
// of a tied matrix, the norm and the update.
#include "stages/detail/stage_impl.hpp"

#include <algorithm>

namespace headrace::stages {

float* Stage::Impl::accumulator(std::int32_t index) const {
  return gradient_memory_.as<float>() + plan_.gradient_elements * index;
}

void Stage::Impl::point_views_at(std::int32_t accumulator_index) {
  for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
    for (std::size_t k = 0; k < plan_.layers[i].uses.size(); ++k) {
      const std::int64_t offset = plan_.layers[i].uses[k].gradient_offset;
      views_[i][k].gradient = offset == kNone ? nullptr : accumulator(accumulator_index) + offset;
    }
  }
}

void Stage::Impl::open_block() {
  if (plan_.gradient_elements == 0) return;
  const auto top = static_cast<std::int32_t>(stack_.size());
  point_views_at(top);
  operators_.fill(stream_, accumulator(top), 0.0F, plan_.gradient_elements);
}

void Stage::Impl::close_block() {
  const std::int32_t done = plan_.first_microbatch + weights_done_;
  const std::int32_t block = done / plan_.block_microbatches - 1;
  push_sum({{block, 1}, accumulator(static_cast<std::int32_t>(stack_.size()))},
           options_.broken_rule == BrokenRule::kTreeShape);
}

// any_two: folds whatever stands on top, for a broken rule.
void Stage::Impl::push_sum(const Sum& sum, bool any_two) {
  stack_.push_back(sum);
  while (stack_.size() > 1 &&
         (any_two || are_halves(stack_[stack_.size() - 2].tree, stack_.back().tree))) {
    fold_top();
  }
}

// The whole tree's sum goes where gradients are read, wherever its halves lie.
void Stage::Impl::fold_top() {
  const Sum right = stack_.back();
  stack_.pop_back();
  Sum& left = stack_.back();
  left.tree.count += right.tree.count;
  const float* before = left.values;
  if (left.tree.count == options_.reduction_blocks) left.values = accumulator(0);
  if (plan_.gradient_elements == 0) return;
  operators_.add(stream_, before, right.values, left.values, plan_.gradient_elements);
}

const std::byte* Stage::Impl::roots() const {
  HEADRACE_CHECK(weights_done_ == plan_.own_microbatches && !reduced_, "stage",
                 options_.stage.value, "has", weights_done_, "weight gradients");
  return gradient_memory_.data();  // the stack fills accumulators from the first one up
}

void Stage::Impl::reduce_gradients(std::span<std::byte* const> roots) {
  HEADRACE_CHECK(weights_done_ == plan_.own_microbatches, "stage", options_.stage.value, "has",
                 weights_done_, "weight gradients, expected", plan_.own_microbatches);
  HEADRACE_CHECK(!reduced_, "stage", options_.stage.value, "gradients are already reduced");
  HEADRACE_CHECK(options_.replicas == 1 || roots.size() == plan_.roots.size(), roots.size());
  if (options_.replicas > 1) {
    own_roots_.swap(stack_);
    stack_.clear();
    // BrokenRule::kReplicaOrder: its own blocks first, and in whatever shape they come.
    const bool own_first = options_.broken_rule == BrokenRule::kReplicaOrder;
    for (std::size_t k = 0; k < roots.size(); ++k) {
      const std::size_t d = own_first ? (k + options_.replica.index()) % roots.size() : k;
      for (std::size_t i = 0; i < plan_.roots[d].size(); ++i) {
        float* theirs = static_cast<float*>(static_cast<void*>(roots[d]));
        push_sum(d == options_.replica.index()
                     ? own_roots_[i]
                     : Sum{plan_.roots[d][i],
                           theirs + plan_.gradient_elements * static_cast<std::int64_t>(i)},
                 own_first);
      }
    }
    own_roots_.clear();
  }
  while (stack_.size() > 1) fold_top();
  point_views_at(0);
  reduced_ = true;
  sum_tied_here();
}

Stage::Impl::TiedEnd Stage::Impl::tied_end(std::string_view layer_kind) const {
  for (const PlannedLayer& layer : plan_.layers) {
    if (layer.spec.kind != layer_kind) continue;
    for (const PlannedUse& use : layer.uses) {
      const ParameterSpec& spec = plan_.parameters[use.parameter].spec;
      if (is_tied_matrix(options_.model, spec.name)) return {use.gradient_offset, spec.count()};
    }
  }
  return {};
}

// Both ends on this rank: whichever end is complete last makes the one sum.
void Stage::Impl::sum_tied_here() {
  const TiedEnd embedding = tied_end("embedding");
  if (tied_partner_ == nullptr) {
    if (embedding.gradient_offset != kNone && tied_end("head").gradient_offset != kNone) {
      sum_tied_between(*this, *this);
    }
  } else if (tied_partner_->reduced_) {
    const bool embedding_here = embedding.count > 0;
    sum_tied_between(embedding_here ? *this : *tied_partner_,
                     embedding_here ? *tied_partner_ : *this);
  }
}

void Stage::Impl::sum_tied_between(Impl& embedding, Impl& head) {
  const TiedEnd to = embedding.tied_end("embedding");
  const TiedEnd from = head.tied_end("head");
  if (to.gradient_offset == kNone) return;  // frozen
  float* sum = embedding.accumulator(0) + to.gradient_offset;
  operators_.add(stream_, sum, head.accumulator(0) + from.gradient_offset, sum, to.count);
}

bool Stage::Impl::exchanges_tied() const {
  const bool embedding = tied_end("embedding").gradient_offset != kNone;
  const bool head = tied_end("head").gradient_offset != kNone;
  return tied_partner_ == nullptr && embedding != head;
}

const float* Stage::Impl::tied_part() const {
  HEADRACE_CHECK(exchanges_tied() && reduced_, "stage", options_.stage.value);
  const TiedEnd embedding = tied_end("embedding");
  const TiedEnd end = embedding.count > 0 ? embedding : tied_end("head");
  return accumulator(0) + end.gradient_offset;
}

std::int64_t Stage::Impl::tied_count() const {
  return exchanges_tied() ? std::max(tied_end("embedding").count, tied_end("head").count) : 0;
}

void Stage::Impl::add_tied_part(const float* other_end) {
  auto* own = const_cast<float*>(tied_part());
  const bool embedding_here = tied_end("embedding").count > 0;
  operators_.add(stream_, embedding_here ? own : other_end, embedding_here ? other_end : own, own,
                 tied_count());
  tied_added_ = true;
}

bool Stage::Impl::tied_is_complete() const {
  if (tied_partner_ != nullptr) return tied_partner_->reduced_;
  return tied_added_ || !exchanges_tied();
}

// BrokenRule::kTiedSum counts the head's copy of a tied matrix as well.
bool Stage::Impl::counts_in_norm(const PlannedParameter& parameter) const {
  if (!parameter.trainable || parameter.borrowed || options_.replica.value > 0) return false;
  return !parameter.copy || options_.broken_rule == BrokenRule::kTiedSum;
}

const float* Stage::Impl::gradient(std::string_view name) const {
  for (const PlannedLayer& layer : plan_.layers) {
    for (const PlannedUse& use : layer.uses) {
      const PlannedParameter& parameter = plan_.parameters[use.parameter];
      if (parameter.spec.name != name || parameter.borrowed) continue;
      return use.gradient_offset == kNone ? nullptr : accumulator(0) + use.gradient_offset;
    }
  }
  return nullptr;
}

void Stage::Impl::square_sums() {
  HEADRACE_CHECK(reduced_, "stage", options_.stage.value, "gradients are not reduced");
  HEADRACE_CHECK(tied_is_complete(), "stage", options_.stage.value, "a tied part is missing");
  for (const PlannedParameter& parameter : plan_.parameters) {
    if (!counts_in_norm(parameter)) continue;
    const auto place = std::find_if(squares_.begin(), squares_.end(), [&](const SquareSum& square) {
      return square.order == parameter.order;
    });
    kernels::SumSquaresArgs args;
    args.x = gradient(parameter.spec.name);
    args.count = parameter.spec.count();
    args.result = square_memory_.as<double>() + (place - squares_.begin());
    operators_.sum_squares(stream_, args);
  }
}

std::span<const SquareSum> Stage::Impl::read_square_sums() {
  options_.device->copy_to_host(square_values_.data(), square_memory_.data(),
                                square_values_.size() * sizeof(double));
  for (std::size_t i = 0; i < squares_.size(); ++i) squares_[i].value = square_values_[i];
  return squares_;
}

void Stage::Impl::apply_update(const UpdateContext& update) {
  const OptimizerSpec& optimizer = options_.optimizer;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const PlannedParameter& parameter = plan_.parameters[i];
    if (!parameter.trainable || parameter.borrowed) continue;
    const float* gradient_sum = gradient(parameter.spec.name);
    const double decay = parameter.spec.is_matrix() ? optimizer.weight_decay : 0.0;
    if (optimizer.kind == OptimizerKind::kAdamw) {
      kernels::AdamwArgs args;
      args.weight = weights_[i].weight;
      args.gradient = gradient_sum;
      args.first_moment = weights_[i].moments[0];
      args.second_moment = weights_[i].moments[1];
      args.mirror_bf16 = weights_[i].mirror;
      args.count = parameter.spec.count();
      args.learning_rate = update.learning_rate;
      args.beta1 = static_cast<float>(optimizer.beta1);
      args.beta2 = static_cast<float>(optimizer.beta2);
      args.epsilon = static_cast<float>(optimizer.epsilon);
      args.weight_decay = static_cast<float>(decay);
      args.bias_correction1 = update.bias_correction1;
      args.bias_correction2 = update.bias_correction2;
      args.gradient_scale = update.gradient_scale;
      operators_.adamw(stream_, args);
    } else {
      kernels::SgdArgs args;
      args.weight = weights_[i].weight;
      args.gradient = gradient_sum;
      args.momentum_buffer = weights_[i].moments[0];
      args.mirror_bf16 = weights_[i].mirror;
      args.count = parameter.spec.count();
      args.learning_rate = update.learning_rate;
      args.momentum = static_cast<float>(optimizer.momentum);
      args.weight_decay = static_cast<float>(decay);
      args.gradient_scale = update.gradient_scale;
      operators_.sgd(stream_, args);
    }
  }
}

}  // namespace headrace::stages
