// The step's end on a rank: replicas and tied ends exchange, then norm, commit and update.
#include "kernels/operators.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "runtime/base/check.hpp"

#include <array>
#include <utility>

namespace headrace::actors {

using schedules::Action;
using schedules::ActionKind;

RankWorker::Prepared RankWorker::prepare_step_end(const Action& action) {
  Prepared prepared;
  const bool embedding_end = chunks_.front().stage->has_embedding();
  switch (action.kind) {
    case ActionKind::kReduceGrad: {
      const Chunk& chunk = chunk_of(action.stage);
      if (chunk.roots_in == nullptr) break;
      prepared.in = chunk.roots_in->find_full(pass_, MicrobatchIndex(0));
      if (prepared.in == comm::Boundary::kNone) prepared.waiting = WaitCause::kReplica;
      break;
    }
    case ActionKind::kTiedSend: {
      comm::Boundary& to =
          embedding_end ? pipeline_.tied_from_embedding() : pipeline_.tied_from_head();
      prepared.out = to.find_free();
      if (prepared.out == comm::Boundary::kNone) prepared.waiting = WaitCause::kTied;
      break;
    }
    case ActionKind::kTiedRecv: {
      comm::Boundary& from =
          embedding_end ? pipeline_.tied_from_head() : pipeline_.tied_from_embedding();
      prepared.in = from.find_full(pass_, MicrobatchIndex(0));
      if (prepared.in == comm::Boundary::kNone) prepared.waiting = WaitCause::kTied;
      break;
    }
    case ActionKind::kCommit:
      if (norm_recorded_) {
        if (!norm_event_->done()) {
          prepared.waiting = WaitCause::kDevice;
          break;
        }
        // A failed stream completes its events too: what it skipped must never be committed.
        if (stream_->failed()) {
          fail(stream_->failure(), "queued before " + to_string(action));
          prepared.waiting = WaitCause::kDevice;
          break;
        }
        finish_norm();
      }
      if (open_ && !commit_) prepared.waiting = WaitCause::kCommit;
      break;
    default:
      break;
  }
  return prepared;
}

void RankWorker::issue_step_end(const Action& action, const Prepared& prepared) {
  switch (action.kind) {
    case ActionKind::kReduceGrad:
      issue_reduce(chunk_of(action.stage), prepared.in);
      break;
    case ActionKind::kTiedSend:
      issue_tied_send();
      break;
    case ActionKind::kTiedRecv:
      issue_tied_receive(prepared.in);
      break;
    case ActionKind::kNorm:
      for (Chunk& chunk : chunks_) chunk.stage->square_sums();
      stream_->record(*norm_event_);
      norm_recorded_ = true;
      stream_->call_host(bell());
      break;
    case ActionKind::kCommit:
      break;
    case ActionKind::kOptimizer:
      issue_optimizer();
      break;
    default:
      HEADRACE_CHECK(false, "no action of a step's end", to_string(action));
  }
}

// Everything a rank ships leaves before it waits for anything, so that two twins never wait for
// each other.
void RankWorker::send_roots() {
  roots_sent_ = true;
  for (Chunk& chunk : chunks_) {
    comm::Boundary& to = *chunk.roots_out;
    const std::int32_t slot = to.find_free();
    HEADRACE_CHECK(slot != comm::Boundary::kNone, "stage", chunk.index.value, "rank", rank_.value);
    stream_->wait(to.free_event(slot));
    pipeline_.device(rank_).operators().copy(*stream_, chunk.stage->roots(), to.payload(slot),
                                             to.options().payload_bytes);
    stream_->record(to.full_event(slot));
    to.publish(slot, pass_, MicrobatchIndex(0));
    pipeline_.doorbell().ring(chunk.twin);
  }
}

void RankWorker::issue_reduce(Chunk& chunk, std::int32_t slot) {
  if (chunk.roots_in == nullptr) {
    chunk.stage->reduce_gradients();
    return;
  }
  comm::Boundary& from = *chunk.roots_in;
  stream_->wait(from.full_event(slot));
  std::array<std::byte*, 2> roots{};
  roots[1 - chunk.replica.index()] = from.payload(slot);
  chunk.stage->reduce_gradients(roots);
  stream_->record(from.free_event(slot));
  from.release(slot);
}

void RankWorker::issue_tied_send() {
  const bool embedding_end = chunks_.front().stage->has_embedding();
  stages::Stage& stage = embedding_end ? *chunks_.front().stage : *chunks_.back().stage;
  comm::Boundary& to = embedding_end ? pipeline_.tied_from_embedding() : pipeline_.tied_from_head();
  const std::int32_t slot = to.find_free();
  stream_->wait(to.free_event(slot));
  pipeline_.device(rank_).operators().copy(*stream_, stage.tied_part(), to.payload(slot),
                                           to.options().payload_bytes);
  stream_->record(to.full_event(slot));
  to.publish(slot, pass_, MicrobatchIndex(0));
  const StageIndex other(embedding_end ? plan_.program.stages - 1 : 0);
  pipeline_.doorbell().ring(plan_.rank_of(other));
}

void RankWorker::issue_tied_receive(std::int32_t slot) {
  const bool embedding_end = chunks_.front().stage->has_embedding();
  stages::Stage& stage = embedding_end ? *chunks_.front().stage : *chunks_.back().stage;
  comm::Boundary& from =
      embedding_end ? pipeline_.tied_from_head() : pipeline_.tied_from_embedding();
  stream_->wait(from.full_event(slot));
  stage.add_tied_part(reinterpret_cast<const float*>(from.payload(slot)));
  stream_->record(from.free_event(slot));
  from.release(slot);
  const StageIndex other(embedding_end ? plan_.program.stages - 1 : 0);
  pipeline_.doorbell().ring(plan_.rank_of(other));
}

void RankWorker::finish_norm() {
  norm_recorded_ = false;
  if (replay_) {
    ReplayDone done;
    done.rank = rank_.value;
    done.step = step_.value;
    for (Chunk& chunk : chunks_) {
      const stages::NonFinite found = chunk.stage->first_non_finite();
      if (!found.found) continue;
      const auto key = std::pair(found.microbatch.value, found.backward ? 1 : 0);
      if (done.found != 0 && key >= std::pair(done.microbatch, done.backward)) continue;
      done.found = 1;
      done.backward = found.backward ? 1 : 0;
      done.stage = chunk.index.value;
      done.layer = found.layer.value;
      done.microbatch = found.microbatch.value;
      done.tensor = found.tensor;
    }
    replay_out_ = std::move(done);
    open_ = false;
    show({ActionKind::kCommit}, WaitCause::kData);  // a rank that is done is not inside anything
    return;
  }
  NormReady ready;
  ready.rank = rank_.value;
  ready.step = step_.value;
  ready.work_seconds = times_.work;
  for (Chunk& chunk : chunks_) {
    for (const stages::SquareSum& sum : chunk.stage->read_square_sums()) {
      ready.orders.push_back(sum.order);
      ready.square_sums.push_back(sum.value);
    }
    if (!chunk.stage->has_head()) continue;
    const auto losses = chunk.stage->loss_sums();
    ready.loss_sums.assign(losses.begin(), losses.end());
    ready.loss_first = chunk.first_microbatch;
  }
  norm_out_ = std::move(ready);
}

void RankWorker::issue_optimizer() {
  const CommitStep decision = *std::exchange(commit_, std::nullopt);
  stages::UpdateContext update;
  update.learning_rate = decision.learning_rate;
  update.bias_correction1 = decision.bias_correction1;
  update.bias_correction2 = decision.bias_correction2;
  update.gradient_scale = decision.gradient_scale;
  if (decision.apply != 0) {
    for (Chunk& chunk : chunks_) chunk.stage->apply_update(update);
  }
  stream_->record(*applied_event_);
  applied_pending_ = step_.value;
  stream_->call_host(bell());
  open_ = false;
  show({ActionKind::kOptimizer}, WaitCause::kData);
  if (decision.open_next != 0) begin(decision.next);
}

void RankWorker::poll_applied() {
  if (applied_pending_ == 0 || !applied_event_->done()) return;
  // A failed stream completes its events too; what it skipped must not be reported as applied.
  if (stream_->failed()) {
    fail(stream_->failure(), "queued before OPTIMIZER");
    return;
  }
  applied_out_ = StepApplied{rank_.value, std::exchange(applied_pending_, 0)};
}

}  // namespace headrace::actors
