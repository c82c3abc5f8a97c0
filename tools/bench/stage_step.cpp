#include "tools/bench/stage_step.hpp"

#include "kernels/philox.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"

#include <vector>

namespace headrace::bench {

StageStep::StageStep(const actors::Plan& plan)
    : device_(make_timed_device(times_)),
      stream_(device_->make_stream()),
      optimizer_(plan.optimizer),
      microbatches_(plan.microbatches()) {
  HEADRACE_CHECK(plan.program.stages == 1, plan.program.stages);
  stages::StageOptions options = actors::stage_options(plan, StageIndex(0));
  options.device = device_.get();
  options.stream = stream_.get();
  const auto bytes = stages::stage_bytes(options);
  HEADRACE_CHECK(bytes.is_ok(), bytes.status().message());
  workspace_ = device_->allocate(static_cast<std::size_t>(bytes->workspace));
  options.workspace = workspace_.data();
  auto stage = stages::Stage::create(options);
  HEADRACE_CHECK(stage.is_ok(), stage.status().message());
  stage_ = *std::move(stage);
  const auto tokens = static_cast<std::size_t>(plan.shape.rows() * microbatches_);
  std::vector<std::int32_t> ids(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    ids[i] = static_cast<std::int32_t>((i * 2654435761U >> 7) %
                                       static_cast<std::size_t>(plan.model.vocabulary));
  }
  const std::size_t id_bytes = tokens * sizeof(std::int32_t);
  inputs_ = device_->allocate(id_bytes);
  targets_ = device_->allocate(id_bytes);
  device_->copy_from_host(inputs_.data(), ids.data(), id_bytes);
  device_->copy_from_host(targets_.data(), ids.data(), id_bytes);
}

double StageStep::run() {
  ++step_.value;
  const std::int64_t begin = monotonic_now_ns();
  stages::StepContext context;
  context.step = step_;
  context.dropout_key = kernels::key_of_step(1, step_.value, 0);
  context.loss_scale =
      static_cast<float>(sizeof(std::int32_t)) / static_cast<float>(inputs_.bytes());
  context.inputs = inputs_.as<std::int32_t>();
  context.targets = targets_.as<std::int32_t>();
  stage_->begin_step(context);
  for (std::int32_t m = 0; m < microbatches_; ++m) {
    stage_->forward(MicrobatchIndex(m), nullptr, nullptr);
    stage_->backward_input(MicrobatchIndex(m), nullptr, nullptr);
    stage_->backward_weight(MicrobatchIndex(m));
  }
  stage_->reduce_gradients();
  stage_->square_sums();
  stage_->apply_update(stages::update_at(optimizer_, step_, 1.0));
  return static_cast<double>(monotonic_now_ns() - begin) * 1e-9;
}

}  // namespace headrace::bench
