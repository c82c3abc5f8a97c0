#include "runtime/actors/rank_worker.hpp"

#include "kernels/operators.hpp"
#include "runtime/base/check.hpp"

#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace headrace::actors {

using schedules::Action;
using schedules::ActionKind;

namespace {

// [Note: replay pass] Slots are keyed by pass: the step, and for a replay the step moved far away
// by an even number, so that words of the first pass are never taken for those of the replay.
constexpr std::int64_t kReplayPass = std::int64_t{1} << 40;

TimeCause cause_of(WaitCause waiting) {
  switch (waiting) {
    case WaitCause::kActivation:
      return TimeCause::kActivation;
    case WaitCause::kGradient:
      return TimeCause::kGradient;
    case WaitCause::kNone:
    case WaitCause::kData:
      return TimeCause::kData;
    default:
      return TimeCause::kOptimizer;
  }
}

void ring_bell(void* context, std::uint64_t rank) {
  static_cast<Doorbell*>(context)->ring(Rank(static_cast<std::int32_t>(rank)));
}

}  // namespace

// ---- advancing
// ------------------------------------------------------------------------------------

void RankWorker::open(const RunStep& message) {
  charge_wait();
  begin(message);
}

void RankWorker::begin(const RunStep& message) {
  // A replay reopens the step that waits for its commit; every slot is free again by then.
  HEADRACE_CHECK(!open_ || (message.replay != 0 && message.step == step_.value), "rank",
                 rank_.value, "opens step", message.step, "inside step", step_.value);
  step_ = StepIndex(message.step);
  pass_ = StepIndex(message.step + (message.replay != 0 ? kReplayPass : 0));
  if (first_step_ == 0) first_step_ = message.step;
  open_ = true;
  replay_ = message.replay != 0;
  norm_recorded_ = false;
  end_next_ = 0;
  roots_sent_ = plan_.replicas() == 1;
  queues_.rewind();
  stages::StepContext context;
  context.step = step_;
  context.dropout_key = kernels::key_of_step(plan_.config.run.seed, message.step, message.epoch);
  context.loss_scale =
      message.supervised_tokens > 0 ? 1.0F / static_cast<float>(message.supervised_tokens) : 0.0F;
  context.inputs = pipeline_.inputs(step_);
  context.targets = pipeline_.targets(step_);
  context.check_finite = replay_;
  for (Chunk& chunk : chunks_) {
    chunk.progress.assign(chunk.progress.size(), Progress::kNothing);
    chunk.weights_added = 0;
    chunk.stage->begin_step(context);
  }
  if (counted()) ++times_.steps;
}

void RankWorker::commit(const CommitStep& message) {
  HEADRACE_CHECK(open_ && message.step == step_.value && !commit_, "commit of step", message.step,
                 "at step", step_.value, "rank", rank_.value);
  commit_ = message;
}

WaitCause RankWorker::advance() {
  if (failed_) return WaitCause::kNone;
  try {
    return advance_unguarded();
  } catch (const std::exception& failure) {
    fail(Status(StatusCode::kStageFailed, failure.what()), to_string(issuing_));
    return WaitCause::kNone;
  }
}

WaitCause RankWorker::advance_unguarded() {
  charge_wait();
  for (;;) {
    poll_applied();
    if (failed_) return WaitCause::kNone;
    if (!open_) {
      show(Action{ActionKind::kOptimizer, {}, {}}, WaitCause::kData);
      return blocked_ = WaitCause::kNone;
    }
    const WaitCause waiting = step_once();
    if (failed_) return WaitCause::kNone;
    if (waiting != WaitCause::kNone) return blocked_ = waiting;
  }
}

// Issues one action; kNone when it did (or the step ended), else what is missing.
WaitCause RankWorker::step_once() {
  Prepared prepared;
  Action action;
  if (!queues_.empty()) {
    const int queue = queues_.choose([&](const Action& head) {
      const Prepared found = prepare(head);
      if (found.waiting != WaitCause::kNone) return false;
      prepared = found;
      return true;
    });
    if (queue < 0) {
      const Action& missing = queues_.earliest();
      const WaitCause waiting = prepare(missing).waiting;
      show(missing, waiting);
      return waiting;
    }
    action = queues_.head(queue);
    show(action, WaitCause::kNone);
    issuing_ = action;
    issue(action, prepared);
    queues_.pop(queue);
  } else if (!roots_sent_) {
    action = issuing_ = end_actions_.front();
    send_roots();
  } else {
    action = end_actions_[static_cast<std::size_t>(end_next_)];
    prepared = prepare_step_end(action);
    if (prepared.waiting != WaitCause::kNone) {
      show(action, prepared.waiting);
      return prepared.waiting;
    }
    if (!open_) return WaitCause::kNone;  // a replay ends with its report
    show(action, WaitCause::kNone);
    issuing_ = action;
    ++end_next_;
    issue_step_end(action, prepared);
    const double spent = account_.charge(times_, TimeCause::kOptimizer, true);
    if (counted()) times_.step_end += spent;
  }
  if (stream_->failed()) fail(stream_->failure(), to_string(action));
  return WaitCause::kNone;
}

bool RankWorker::can_advance() {
  if (failed_) return false;
  if (applied_pending_ != 0 && applied_event_->done()) return true;
  if (!open_) return false;
  if (queues_.empty()) {
    if (!roots_sent_) return true;
    const Action& action = end_actions_[static_cast<std::size_t>(end_next_)];
    if (action.kind == ActionKind::kCommit && norm_recorded_) return norm_event_->done();
    return prepare_step_end(action).waiting == WaitCause::kNone;
  }
  return queues_.choose(
             [&](const Action& head) { return prepare(head).waiting == WaitCause::kNone; }) >= 0;
}

// ---- compute actions
// ------------------------------------------------------------------------------

RankWorker::Prepared RankWorker::prepare(const Action& action) {
  Chunk& chunk = chunk_of(action.stage);
  switch (action.kind) {
    case ActionKind::kForward:
      return prepare_forward(chunk, action.microbatch);
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      return prepare_backward(chunk, action);
    default: {
      Prepared prepared;
      if (chunk.progress[action.microbatch.index()] != Progress::kInput ||
          !may_add(chunk, action.microbatch)) {
        prepared.waiting = WaitCause::kGradient;
      }
      return prepared;
    }
  }
}

// [Note: one way to add] holds across queues too: a B and the W of other microbatches stand in
// different queues under the greedy policy.
bool RankWorker::may_add(const Chunk& chunk, MicrobatchIndex m) const {
  return m.value == chunk.first_microbatch + chunk.weights_added ||
         plan_.broken_rule == BrokenRule::kAddingOrder;
}

RankWorker::Prepared RankWorker::prepare_forward(Chunk& chunk, MicrobatchIndex m) const {
  Prepared prepared;
  if (chunk.stash >= chunk.frames.stash || chunk.activations >= chunk.frames.activation) {
    prepared.waiting = WaitCause::kGradient;  // its frames come back with the backward
    return prepared;
  }
  if (chunk.input != nullptr) {
    prepared.in = chunk.input->find_full(pass_, m);
    if (prepared.in == comm::Boundary::kNone) prepared.waiting = WaitCause::kActivation;
  }
  if (chunk.output != nullptr && prepared.waiting == WaitCause::kNone) {
    prepared.out = chunk.output->find_free();
    if (prepared.out == comm::Boundary::kNone) prepared.waiting = WaitCause::kActivation;
  }
  return prepared;
}

RankWorker::Prepared RankWorker::prepare_backward(Chunk& chunk, const Action& action) const {
  Prepared prepared;
  if (chunk.progress[action.microbatch.index()] != Progress::kForward ||
      chunk.weight_inputs >= chunk.frames.weight_inputs ||
      (action.kind == ActionKind::kBackward && !may_add(chunk, action.microbatch))) {
    prepared.waiting = WaitCause::kActivation;
    return prepared;
  }
  if (chunk.gradient_in != nullptr) {
    prepared.in = chunk.gradient_in->find_full(pass_, action.microbatch);
    if (prepared.in == comm::Boundary::kNone) prepared.waiting = WaitCause::kGradient;
  }
  if (chunk.gradient_out != nullptr && prepared.waiting == WaitCause::kNone) {
    prepared.out = chunk.gradient_out->find_free();
    if (prepared.out == comm::Boundary::kNone) prepared.waiting = WaitCause::kGradient;
  }
  return prepared;
}

void RankWorker::issue(const Action& action, const Prepared& prepared) {
  Chunk& chunk = chunk_of(action.stage);
  StageSeconds& seconds = times_.stages[static_cast<std::size_t>(&chunk - chunks_.data())];
  const bool counts = counted();
  switch (action.kind) {
    case ActionKind::kForward: {
      issue_forward(chunk, action.microbatch, prepared);
      const double spent = account_.charge(times_, TimeCause::kCompute, true);
      if (counts) seconds.forward += spent, ++seconds.forwards;
      break;
    }
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput: {
      issue_input(chunk, action.microbatch, prepared);
      const double spent = account_.charge(times_, TimeCause::kCompute, true);
      if (counts) seconds.backward_input += spent, ++seconds.backward_inputs;
      if (action.kind == ActionKind::kBackwardInput) break;
      [[fallthrough]];
    }
    default: {
      issue_weight(chunk, action.microbatch);
      const double spent = account_.charge(times_, TimeCause::kCompute, true);
      if (counts) seconds.backward_weight += spent, ++seconds.backward_weights;
      break;
    }
  }
  if (counts) ++times_.actions;
}

void RankWorker::issue_forward(Chunk& chunk, MicrobatchIndex m, const Prepared& prepared) {
  inject_faults(chunk, m);
  const void* x = nullptr;
  void* y = nullptr;
  if (chunk.input != nullptr) {
    stream_->wait(chunk.input->full_event(prepared.in));
    x = chunk.input->payload(prepared.in);
  }
  if (chunk.output != nullptr) {
    stream_->wait(chunk.output->free_event(prepared.out));
    y = chunk.output->payload(prepared.out);
  }
  chunk.stage->forward(m, x, y);
  chunk.held_slot[m.index()] = prepared.in;
  chunk.progress[m.index()] = Progress::kForward;
  count_forward(chunk);
  if (chunk.output == nullptr) return;
  stream_->record(chunk.output->full_event(prepared.out));
  chunk.output->publish(prepared.out, pass_, m);
  if (chunk.above != rank_) pipeline_.doorbell().ring(chunk.above);
}

void RankWorker::count_forward(Chunk& chunk) {
  ++chunk.stash;
  ++chunk.activations;
  ++activations_;
  if (activations_ > peak_activations_) peak_activations_ = activations_;
}

void RankWorker::issue_input(Chunk& chunk, MicrobatchIndex m, const Prepared& prepared) {
  const void* dy = nullptr;
  void* dx = nullptr;
  if (chunk.gradient_in != nullptr) {
    stream_->wait(chunk.gradient_in->full_event(prepared.in));
    dy = chunk.gradient_in->payload(prepared.in);
  }
  if (chunk.gradient_out != nullptr) {
    stream_->wait(chunk.gradient_out->free_event(prepared.out));
    dx = chunk.gradient_out->payload(prepared.out);
  }
  chunk.stage->backward_input(m, dy, dx);
  --chunk.stash;
  ++chunk.weight_inputs;
  chunk.progress[m.index()] = Progress::kInput;
  if (chunk.gradient_out != nullptr) {
    stream_->record(chunk.gradient_out->full_event(prepared.out));
    chunk.gradient_out->publish(prepared.out, pass_, m);
  }
  if (chunk.input != nullptr) {
    const std::int32_t slot = std::exchange(chunk.held_slot[m.index()], comm::Boundary::kNone);
    stream_->record(chunk.input->free_event(slot));
    chunk.input->release(slot);
    if (chunk.below != rank_) pipeline_.doorbell().ring(chunk.below);
  }
  if (chunk.gradient_in != nullptr) {
    stream_->record(chunk.gradient_in->free_event(prepared.in));
    chunk.gradient_in->release(prepared.in);
    if (chunk.above != rank_) pipeline_.doorbell().ring(chunk.above);
  }
}

void RankWorker::issue_weight(Chunk& chunk, MicrobatchIndex m) {
  chunk.stage->backward_weight(m);
  ++chunk.weights_added;
  chunk.progress[m.index()] = Progress::kDone;
  --chunk.weight_inputs;
  --chunk.activations;
  --activations_;
}

// ---- faults, reports
// ------------------------------------------------------------------------------

void RankWorker::inject_faults(Chunk& chunk, MicrobatchIndex m) {
  const config::DebugConfig& debug = plan_.config.debug;
  const auto strikes = [&](const std::optional<config::FaultPoint>& fault) {
    return fault && fault->stage == chunk.index.value && fault->step == step_.value && m.value == 0;
  };
  if (strikes(debug.throw_at)) {
    throw std::runtime_error("debug.throw_at: thrown in stage " +
                             std::to_string(chunk.index.value) + " at step " +
                             std::to_string(step_.value));
  }
  if (!strikes(debug.nan_at)) return;
  for (const stages::StateTensor& tensor : chunk.stage->state()) {
    pipeline_.device(rank_).operators().fill(*stream_, tensor.data,
                                             std::numeric_limits<float>::quiet_NaN(), tensor.count);
    chunk.stage->weights_changed();
    break;
  }
}

void RankWorker::fail(const Status& status, const std::string& where) {
  if (failed_) return;
  failed_ = true;
  failure_out_ = StageFailed{rank_.value, step_.value, where,
                             static_cast<std::int32_t>(status.code()), status.message()};
}

void RankWorker::show(const Action& action, WaitCause waiting) {
  pipeline_.board().publish(rank_, {step_, position(), action, waiting, account_.last_ns()});
}

void RankWorker::charge_wait() {
  if (account_.last_ns() == 0) {
    account_.start();
    return;
  }
  account_.charge(times_, cause_of(blocked_), false);
}

kernels::HostCall RankWorker::bell() const {
  return {&ring_bell, &pipeline_.doorbell(), static_cast<std::uint64_t>(rank_.value)};
}

std::optional<NormReady> RankWorker::take_norm() { return std::exchange(norm_out_, std::nullopt); }
std::optional<ReplayDone> RankWorker::take_replay() {
  return std::exchange(replay_out_, std::nullopt);
}
std::optional<StepApplied> RankWorker::take_applied() {
  return std::exchange(applied_out_, std::nullopt);
}
std::optional<StageFailed> RankWorker::take_failure() {
  return std::exchange(failure_out_, std::nullopt);
}

}  // namespace headrace::actors
