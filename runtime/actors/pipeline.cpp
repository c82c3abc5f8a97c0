#include "runtime/actors/pipeline.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "runtime/base/check.hpp"

#include <exception>
#include <new>
#include <utility>

namespace headrace::actors {
namespace {

// In which order a rank makes the activations of a stage, or the gradients of its input.
std::vector<MicrobatchIndex> order_of(const schedules::Program& program, Rank rank,
                                      StageIndex stage, bool forward) {
  std::vector<MicrobatchIndex> order;
  for (const schedules::Action& action : program.actions[rank.index()]) {
    const bool makes = forward ? action.kind == schedules::ActionKind::kForward
                               : action.kind == schedules::ActionKind::kBackward ||
                                     action.kind == schedules::ActionKind::kBackwardInput;
    if (makes && action.stage == stage) order.push_back(action.microbatch);
  }
  return order;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> Pipeline::create(Plan plan, const comm::LinkFactory& links) {
  try {
    std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(plan)));
    pipeline->make_devices();
    pipeline->make_boundaries();
    pipeline->make_links(links);
    pipeline->make_roots();
    pipeline->make_tied();
    if (pipeline->plan_.model.precision == stages::Precision::kBf16 &&
        !pipeline->devices_.front()->supports_bf16()) {
      return Status(StatusCode::kConfig,
                    "run.precision: bf16 needs a processor with AVX-512 (this one offers " +
                        pipeline->devices_.front()->numerics_id() +
                        "); oneDNN has no such matmul without it. Use precision: fp32");
    }
    return pipeline;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kDeviceFailed,
                  "memory for the slots between stages and the token buffers cannot be had; see "
                  "the boundary column of `headrace config check`, then lower batch.size or "
                  "batch.microbatch_size");
  } catch (const std::exception& failure) {
    return Status(StatusCode::kDeviceFailed, failure.what());
  }
}

Pipeline::Pipeline(Plan plan)
    : plan_(std::move(plan)),
      tokens_per_step_(static_cast<std::int64_t>(plan_.config.batch.size) * plan_.shape.positions),
      board_(plan_.program.ranks),
      doorbell_(plan_.program.ranks) {}

void Pipeline::make_devices() {
  for (std::size_t r = 0; r < static_cast<std::size_t>(plan_.program.ranks); ++r) {
    kernels::CpuDeviceOptions options;
    options.threads = plan_.config.ranks[r].threads;
    options.queued = plan_.config.run.queued;
    options.delay_seed = plan_.config.run.queued_seed + r;
    options.stop = &stop_;
    options.broken_rule = plan_.broken_rule;
    devices_.push_back(kernels::make_cpu_device(options));
  }
  const auto bytes = static_cast<std::size_t>(tokens_per_step_) * sizeof(std::int32_t);
  for (std::size_t parity = 0; parity < 2; ++parity) {
    inputs_[parity] = devices_.front()->allocate(bytes);
    targets_[parity] = devices_.back()->allocate(bytes);
  }
}

void Pipeline::make_boundaries() {
  const std::int64_t bytes = stages::boundary_bytes(plan_.model, plan_.shape);
  const std::int32_t microbatches = plan_.program.microbatches;
  for (std::int32_t s = 0; s + 1 < plan_.program.stages; ++s) {
    const StageIndex stage(s);
    const StageIndex next(s + 1);
    const schedules::BoundarySlots& slots = plan_.facts.boundaries[stage.index()];
    for (std::int32_t d = 0; d < plan_.replicas(); ++d) {
      const ReplicaIndex replica(d);
      activations_.push_back(std::make_unique<comm::Boundary>(
          comm::BoundaryOptions{stage, comm::TransferKind::kActivation, bytes, slots.activation,
                                microbatches, &device(plan_.rank_of(next, replica))}));
      gradients_.push_back(std::make_unique<comm::Boundary>(
          comm::BoundaryOptions{stage, comm::TransferKind::kGradient, bytes, slots.gradient,
                                microbatches, &device(plan_.rank_of(stage, replica))}));
    }
  }
}

void Pipeline::make_links(const comm::LinkFactory& links) {
  far_activations_.resize(activations_.size());
  far_gradients_.resize(gradients_.size());
  if (!links) return;
  const auto connect = [&](comm::Boundary& near, std::unique_ptr<comm::Boundary>& far, Rank from,
                           Rank to, std::vector<MicrobatchIndex> order) {
    if (from == to) return;
    far = std::make_unique<comm::Boundary>(near.options());
    comm::LinkEnds ends{&near, far.get(), std::move(order), {}, {}};
    ends.ring_producer = [this, from] { doorbell_.ring(from); };
    ends.ring_consumer = [this, to] { doorbell_.ring(to); };
    links_.push_back(links(std::move(ends)));
  };
  for (std::int32_t s = 0; s + 1 < plan_.program.stages; ++s) {
    for (std::int32_t d = 0; d < plan_.replicas(); ++d) {
      const StageIndex low(s), high(s + 1);
      const ReplicaIndex replica(d);
      const std::size_t i = index_of(low, replica);
      const Rank below = plan_.rank_of(low, replica), above = plan_.rank_of(high, replica);
      connect(*activations_[i], far_activations_[i], below, above,
              order_of(plan_.program, below, low, true));
      if (!plan_.gradient_flows[low.index()]) continue;
      connect(*gradients_[i], far_gradients_[i], above, below,
              order_of(plan_.program, above, high, false));
    }
  }
}

// One slot is enough: the reader gives it back before its NORM, and the next step opens after that.
void Pipeline::make_roots() {
  if (plan_.replicas() == 1) return;
  for (std::int32_t s = 0; s < plan_.program.stages; ++s) {
    const StageIndex stage(s);
    for (std::int32_t d = 0; d < 2; ++d) {
      const auto bytes = stages::stage_bytes(stage_options(plan_, stage, ReplicaIndex(d)));
      HEADRACE_CHECK(bytes.is_ok(), bytes.status().message());
      const Rank reader = plan_.rank_of(stage, ReplicaIndex(1 - d));
      roots_.push_back(std::make_unique<comm::Boundary>(comm::BoundaryOptions{
          stage, comm::TransferKind::kRoots, bytes->roots, 1, 1, &device(reader)}));
    }
  }
}

void Pipeline::make_tied() {
  if (!plan_.tied_exchange) return;
  const std::int64_t tied_bytes =
      plan_.model.vocabulary * plan_.model.width * static_cast<std::int64_t>(sizeof(float));
  for (auto& boundary : tied_) {
    boundary = std::make_unique<comm::Boundary>(
        comm::BoundaryOptions{StageIndex(0), comm::TransferKind::kTiedGradient, tied_bytes, 1, 1,
                              devices_.front().get()});
  }
}

std::int32_t* Pipeline::inputs(StepIndex step) const {
  return inputs_[static_cast<std::size_t>(step.value & 1)].as<std::int32_t>();
}

std::int32_t* Pipeline::targets(StepIndex step) const {
  return targets_[static_cast<std::size_t>(step.value & 1)].as<std::int32_t>();
}

}  // namespace headrace::actors
