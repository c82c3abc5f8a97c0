// Building a rank: stream, workspace, stages and their neighbours; and reporting its state.
#include "kernels/operators.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/sha256.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <vector>

namespace headrace::actors {

using schedules::Action;

Result<std::unique_ptr<RankWorker>> RankWorker::create(Pipeline& pipeline, Rank rank) {
  try {
    std::unique_ptr<RankWorker> worker(new RankWorker(pipeline, rank));
    HEADRACE_RETURN_IF_ERROR(worker->build());
    return worker;
  } catch (const std::bad_alloc&) {
    const std::int64_t bytes = pipeline.plan().memory[rank.index()].total();
    return Status(StatusCode::kDeviceFailed,
                  "rank " + std::to_string(rank.value) + ": memory for its " +
                      std::to_string(bytes / (1024 * 1024)) +
                      " MiB cannot be had; see the table of `headrace config check`, then lower "
                      "batch.microbatch_size, use more ranks, or set run.recompute: block");
  } catch (const std::exception& failure) {
    return Status(StatusCode::kDeviceFailed,
                  "rank " + std::to_string(rank.value) + ": " + failure.what());
  }
}

RankWorker::RankWorker(Pipeline& pipeline, Rank rank)
    : pipeline_(pipeline),
      plan_(pipeline.plan()),
      rank_(rank),
      stream_(pipeline.device(rank).make_stream()),
      chunk_of_stage_(static_cast<std::size_t>(plan_.program.stages), -1),
      norm_event_(pipeline.device(rank).make_event()),
      applied_event_(pipeline.device(rank).make_event()),
      queues_(plan_.program.actions[rank.index()],
              plan_.config.schedule.policy == config::PolicyKind::kGreedy),
      account_(!plan_.config.run.queued && plan_.config.ranks[rank.index()].threads == 1) {
  for (const Action& action : plan_.program.actions[rank.index()]) {
    if (is_step_end(action.kind)) end_actions_.push_back(action);
  }
}

// What a failed run left in the stream still records events and reads stages: they go after it.
RankWorker::~RankWorker() { stream_->synchronize(); }

Status RankWorker::build() {
  const std::vector<HeldStage> mine = stages_of(plan_, rank_);
  std::int64_t workspace = 0;
  for (const HeldStage& held : mine) {
    auto options = stage_options(plan_, held.stage, held.replica);
    options.device = &pipeline_.device(rank_);
    auto bytes = stages::stage_bytes(options);
    if (!bytes) return bytes.status();
    workspace = std::max(workspace, bytes->workspace);
  }
  workspace_ = pipeline_.device(rank_).allocate(static_cast<std::size_t>(workspace));
  chunks_.reserve(mine.size());
  for (const HeldStage& held : mine) HEADRACE_RETURN_IF_ERROR(build_chunk(held));
  times_.stages.resize(chunks_.size());
  stream_->synchronize();
  return stream_->failure();
}

Status RankWorker::build_chunk(const HeldStage& held) {
  Chunk chunk;
  chunk.index = held.stage;
  chunk.replica = held.replica;
  auto options = stage_options(plan_, held.stage, held.replica);
  options.device = &pipeline_.device(rank_);
  options.stream = stream_.get();
  options.workspace = workspace_.data();
  const bool last = held.stage.value + 1 == plan_.program.stages;
  if (plan_.model.tied && last && held.stage.value > 0 && chunk_of_stage_.front() >= 0) {
    options.tied_embedding = chunks_.front().stage.get();
  }
  auto built = stages::Stage::create(options);
  if (!built) return built.status();
  chunk.stage = *std::move(built);
  chunk.first_microbatch = chunk.stage->first_microbatch().value;
  chunk.frames = options.frames;
  connect(chunk);
  const auto microbatches = static_cast<std::size_t>(plan_.program.microbatches);
  chunk.held_slot.assign(microbatches, comm::Boundary::kNone);
  chunk.progress.assign(microbatches, Progress::kNothing);
  chunk_of_stage_[held.stage.index()] = static_cast<std::int32_t>(chunks_.size());
  chunks_.push_back(std::move(chunk));
  return Status::ok();
}

void RankWorker::connect(Chunk& chunk) {
  const StageIndex stage = chunk.index;
  const ReplicaIndex replica = chunk.replica;
  if (stage.value > 0) {
    const StageIndex below(stage.value - 1);
    chunk.input = &pipeline_.consumed_activations(below, replica);
    chunk.below = plan_.rank_of(below, replica);
    if (plan_.gradient_flows[below.index()]) {
      chunk.gradient_out = &pipeline_.gradients(below, replica);
    }
  }
  if (stage.value + 1 < plan_.program.stages) {
    chunk.output = &pipeline_.activations(stage, replica);
    chunk.above = plan_.rank_of(StageIndex(stage.value + 1), replica);
    if (plan_.gradient_flows[stage.index()]) {
      chunk.gradient_in = &pipeline_.consumed_gradients(stage, replica);
    }
  }
  if (plan_.replicas() == 1) return;
  const ReplicaIndex other(1 - replica.value);
  chunk.twin = plan_.rank_of(stage, other);
  chunk.roots_out = &pipeline_.roots_from(stage, replica);
  chunk.roots_in = &pipeline_.roots_from(stage, other);
}

RankWorker::Chunk& RankWorker::chunk_of(StageIndex stage) {
  const std::int32_t chunk = chunk_of_stage_[stage.index()];
  HEADRACE_CHECK(chunk >= 0, "stage", stage.value, "is not on rank", rank_.value);
  return chunks_[static_cast<std::size_t>(chunk)];
}

// The last update is checked by no later step, so its result is looked at here.
StateReported RankWorker::report_state() {
  stream_->synchronize();
  StateReported report;
  report.rank = rank_.value;
  std::vector<std::byte> host;
  for (Chunk& chunk : chunks_) {
    for (const stages::StateTensor& tensor : chunk.stage->state()) {
      host.resize(static_cast<std::size_t>(tensor.count) * sizeof(float));
      pipeline_.device(rank_).copy_to_host(host.data(), tensor.data, host.size());
      const std::span<const float> values(
          static_cast<const float*>(static_cast<void*>(host.data())),
          static_cast<std::size_t>(tensor.count));
      if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
        fail(Status(StatusCode::kNumerics, tensor.name + " is not finite after the last update"),
             "OPTIMIZER");
      }
      std::string shape;
      for (std::int64_t extent : tensor.shape) {
        shape += (shape.empty() ? "" : "x") + std::to_string(extent);
      }
      report.orders.push_back(tensor.order);
      report.lines.push_back(tensor.name + " f32 " + shape + ' ' +
                             sha256_hex(std::span<const std::byte>(host)));
    }
  }
  return report;
}

}  // namespace headrace::actors
