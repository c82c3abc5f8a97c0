// SchedulerActor: opens each step, joins what the ranks report, decides once for all, and ends the
// run.
#include "runtime/actors/detail/actors.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/base/sha256.hpp"

#include <caf/all.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <string>
#include <tuple>

namespace headrace::actors {
namespace {

// `-nan` says nothing that `nan` does not.
std::string number_text(double value) { return std::isnan(value) ? "nan" : std::to_string(value); }

constexpr auto kBoardEvery = std::chrono::seconds(1);
// After this a rank that was told to end is given up: its thread is inside a call that never
// returns.
constexpr std::int64_t kDrainLimitNs = 5'000'000'000;

}  // namespace

template <typename Message>
void SchedulerState::to_all(const Message& message) {
  for (const StageHandle& stage : stages) self->send(stage, message);
}

// ---- steps
// ----------------------------------------------------------------------------------------

void SchedulerState::start(const StartRun& message) {
  HEADRACE_CHECK(phase == RunPhase::kIdle);
  move(RunPhase::kRunning);
  arguments.result->first_step = message.first_step;
  step = message.first_step;
  self->delayed_send(self, kBoardEvery, CheckBoards{0});
  if (message.first_step > arguments.last_step) {
    move(RunPhase::kCollecting);
    to_all(GetState{step - 1});
    return;
  }
  ask_for_batch(step);
}

void SchedulerState::ask_for_batch(std::int64_t number) {
  batch_asked_ns = monotonic_now_ns();
  self->send(data, LoadBatch{number});
}

void SchedulerState::batch_loaded(const BatchLoaded& message) {
  batch_asked_ns = 0;
  if (phase != RunPhase::kRunning) return;
  next_batch = message;
  if (message.step == arguments.result->first_step) {
    open_first();
  } else if (undecided) {
    decide();
  }
}

void SchedulerState::open_first() {
  opened = true;
  batch = *std::exchange(next_batch, std::nullopt);
  ledger->open(StepIndex(step), batch.supervised_tokens);
  step_began_ns = monotonic_now_ns();
  to_all(RunStep{step, batch.supervised_tokens, batch.epoch, 0});
  if (step < arguments.last_step) ask_for_batch(step + 1);
}

void SchedulerState::batch_refused(const BatchRefused& message) {
  batch_asked_ns = 0;
  // A batch that no step will read any more ends nothing.
  if (phase != RunPhase::kRunning || last) return;
  fail(Status(static_cast<StatusCode>(message.code),
              "step " + std::to_string(message.step) + ": " + message.text));
}

void SchedulerState::progress_reported(const ProgressReported& message) {
  tracker->report(Rank(message.rank), StepIndex(message.step), message.position);
}

void SchedulerState::norm_ready(const NormReady& message) {
  if (phase != RunPhase::kRunning) return;
  double& known = work_seconds[static_cast<std::size_t>(message.rank)];
  work_delta += message.work_seconds - known;
  known = message.work_seconds;
  if (!ledger->add(message)) return;
  StepOutcome outcome = ledger->outcome();
  if (!outcome.finite) {
    begin_replay(outcome);
    return;
  }
  undecided = outcome;
  decide();
}

// All ranks reported. The last step needs no batch after it; every other waits until it is checked.
void SchedulerState::decide() {
  const int signal = arguments.signal != nullptr ? arguments.signal->load() : 0;
  last = step >= arguments.last_step || signal != 0;
  if (!last && !next_batch) return;
  if (signal != 0 && step < arguments.last_step) arguments.result->signal = signal;
  commit(*std::exchange(undecided, std::nullopt));
}

void SchedulerState::commit(const StepOutcome& outcome) {
  CommitStep message;
  message.step = step;
  message.learning_rate = outcome.update.learning_rate;
  message.bias_correction1 = outcome.update.bias_correction1;
  message.bias_correction2 = outcome.update.bias_correction2;
  message.gradient_scale = outcome.update.gradient_scale;
  message.apply = batch.supervised_tokens > 0 ? 1 : 0;
  message.open_next = last ? 0 : 1;
  if (!last) {
    message.next = RunStep{step + 1, next_batch->supervised_tokens, next_batch->epoch, 0};
  }
  applied_count = 0;
  to_all(message);
  record(outcome);
  if (last) return;
  ++step;
  batch = *std::exchange(next_batch, std::nullopt);
  ledger->open(StepIndex(step), batch.supervised_tokens);
  if (step < arguments.last_step) ask_for_batch(step + 1);
}

void SchedulerState::record(const StepOutcome& outcome) {
  const std::int64_t now = monotonic_now_ns();
  StepRecord entry;
  entry.step = StepIndex(step);
  entry.loss = outcome.loss;
  entry.grad_norm = outcome.grad_norm;
  entry.learning_rate = outcome.update.learning_rate;
  entry.seconds = static_cast<double>(now - step_began_ns) * 1e-9;
  entry.bubble =
      1.0 - work_delta / (static_cast<double>(stages.size()) * std::max(entry.seconds, 1e-9));
  entry.tokens = arguments.pipeline->tokens_per_step();
  entry.supervised_tokens = batch.supervised_tokens;
  entry.epoch = batch.epoch;
  step_began_ns = now;
  work_delta = 0;
  if (batch.supervised_tokens == 0) {
    log(LogLevel::kWarning, "scheduler", "no supervised tokens", {{"step", step}});
  }
  arguments.result->steps.push_back(entry);
  if (arguments.observer != nullptr) arguments.observer->on_step(entry);
}

void SchedulerState::applied(const StepApplied& message) {
  if (phase != RunPhase::kRunning || !last || message.step != step) return;
  if (++applied_count < static_cast<std::int32_t>(stages.size())) return;
  move(RunPhase::kCollecting);
  to_all(GetState{step});
}

// ---- broken numbers
// -------------------------------------------------------------------------------

void SchedulerState::begin_replay(const StepOutcome& outcome) {
  broken_text = "step " + std::to_string(step) + ": loss " + number_text(outcome.loss) +
                ", gradient norm " + number_text(outcome.grad_norm);
  log(LogLevel::kError, "scheduler", "numbers broke", {{"step", step}, {"text", broken_text}});
  move(RunPhase::kReplaying);
  replays.clear();
  to_all(RunStep{step, batch.supervised_tokens, batch.epoch, 1});
}

void SchedulerState::replay_done(const ReplayDone& message) {
  if (phase != RunPhase::kReplaying) return;
  replays.push_back(message);
  if (replays.size() == stages.size()) name_offender();
}

// The first in causal order: lowest microbatch; forward before backward; up the layers, then down.
void SchedulerState::name_offender() {
  const ReplayDone* first = nullptr;
  const auto key = [](const ReplayDone& done) {
    return std::tuple(done.microbatch, done.backward,
                      done.backward != 0 ? -done.layer : done.layer);
  };
  for (const ReplayDone& done : replays) {
    if (done.found != 0 && (first == nullptr || key(done) < key(*first))) first = &done;
  }
  std::string text = broken_text + "; no rank applied an update. ";
  if (first == nullptr) {
    text += "The replay found only finite values per tensor; their sum overflows";
  } else {
    text += "First non-finite value: stage " + std::to_string(first->stage) + ", layer " +
            std::to_string(first->layer) + ", " + first->tensor + ", microbatch " +
            std::to_string(first->microbatch) + " (rank " + std::to_string(first->rank) + ")";
  }
  fail(Status(
      StatusCode::kNumerics,
      text + ". Lower optimizer.learning_rate, set optimizer.clip_norm or look at the data"));
}

// ---- state
// ----------------------------------------------------------------------------------------

void SchedulerState::state_reported(const StateReported& message) {
  if (phase != RunPhase::kCollecting) return;
  states.push_back(message);
  if (states.size() == stages.size()) finish_state();
}

void SchedulerState::finish_state() {
  std::vector<std::pair<std::int64_t, std::string>> lines;
  for (const StateReported& state : states) {
    for (std::size_t i = 0; i < state.orders.size(); ++i) {
      lines.emplace_back(state.orders[i], state.lines[i]);
    }
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  Sha256 hash;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && lines[i].first == lines[i - 1].first) {
      fail(Status(StatusCode::kInternal,
                  "copies of a parameter differ, of a tied "
                  "matrix or of the two replicas of a stage: '" +
                      lines[i].second + "' and '" + lines[i - 1].second + "'"));
      return;
    }
    hash.update(lines[i].second);
    hash.update("\n");
    arguments.result->state_lines.push_back(lines[i].second);
  }
  arguments.result->state_hash = hash.finish_hex();
  drain(false);
}

// ---- failure and end
// ------------------------------------------------------------------------------

void SchedulerState::stage_failed(const StageFailed& message) {
  // Once the run is ending, ranks that were cut short are victims, not culprits.
  if (phase == RunPhase::kDraining || phase == RunPhase::kEnded) return;
  fail(Status(static_cast<StatusCode>(message.code),
              "rank " + std::to_string(message.rank) + ", step " + std::to_string(message.step) +
                  ", action " + message.where + ": " + message.text));
}

void SchedulerState::child_ended(const caf::actor_addr& child, const std::string& reason) {
  --children_left;
  if (phase == RunPhase::kDraining) {
    if (children_left == 0) end(false);
    return;
  }
  std::string who = "the data actor";
  for (std::size_t r = 0; r < stages.size(); ++r) {
    if (stages[r].address() == child) who = "the actor of rank " + std::to_string(r);
  }
  fail(Status(StatusCode::kInternal, "step " + std::to_string(step) + ": " + who +
                                         " ended without being told to: " + reason));
}

void SchedulerState::check_boards(const CheckBoards&) {
  if (phase == RunPhase::kEnded) return;
  if (phase == RunPhase::kDraining) {
    if (monotonic_now_ns() - drain_began_ns > kDrainLimitNs) {
      end(true);
      return;
    }
  } else if (phase != RunPhase::kCollecting) {
    check_progress();
    heed_signal();
  }
  self->delayed_send(self, kBoardEvery, CheckBoards{0});
}

void SchedulerState::check_progress() {
  const std::int64_t now = monotonic_now_ns();
  const auto stuck = watchdog->judge(now, StepIndex(step));
  const std::string prefix =
      "step " + std::to_string(step) + ": no progress for run.action_timeout_seconds: ";
  const bool batch_missing = !opened || undecided.has_value();
  if (batch_missing && batch_asked_ns != 0 && watchdog->is_late(now, batch_asked_ns)) {
    fail(Status(StatusCode::kTimeout, prefix +
                                          "the data actor has been loading the batch of step " +
                                          std::to_string(opened ? step + 1 : step)));
  } else if (stuck) {
    fail(Status(StatusCode::kTimeout, prefix + *stuck + tracker->in_flight(StepIndex(step))));
  }
}

// A signal is looked at when a step is decided. While a batch is missing that may take long.
void SchedulerState::heed_signal() {
  if (phase != RunPhase::kRunning || arguments.signal == nullptr) return;
  const int signal = arguments.signal->load();
  if (signal == 0) return;
  if (undecided) {
    decide();
  } else if (!opened) {
    arguments.result->signal = signal;
    move(RunPhase::kCollecting);
    to_all(GetState{step - 1});
  }
}

void SchedulerState::fail(Status status) {
  if (phase == RunPhase::kDraining || phase == RunPhase::kEnded) return;
  log(LogLevel::kError, "scheduler", "run failed",
      {{"step", step}, {"code", to_string(status.code())}, {"text", status.message()}});
  failure = std::move(status);
  drain(true);
}

void SchedulerState::drain(bool failed) {
  move(RunPhase::kDraining);
  drain_began_ns = monotonic_now_ns();
  if (failed) arguments.pipeline->stop().store(true);
  to_all(Drain{failed ? 1 : 0});
  self->send(data, Drain{failed ? 1 : 0});
}

void SchedulerState::end(bool stuck) {
  move(RunPhase::kEnded);
  arguments.result->status = failure;
  arguments.result->stuck = stuck;
  caf::anon_send(arguments.main, RunEnded{stuck ? 1 : 0});
  self->quit();
}

// [Note: life of a run] Every legal move; anything else is a bug.
void SchedulerState::move(RunPhase to) {
  bool legal = false;
  switch (phase) {
    case RunPhase::kIdle:
      legal = to == RunPhase::kRunning || to == RunPhase::kDraining;
      break;
    case RunPhase::kRunning:
      legal =
          to == RunPhase::kReplaying || to == RunPhase::kCollecting || to == RunPhase::kDraining;
      break;
    case RunPhase::kReplaying:
    case RunPhase::kCollecting:
      legal = to == RunPhase::kDraining;
      break;
    case RunPhase::kDraining:
      legal = to == RunPhase::kEnded;
      break;
    case RunPhase::kEnded:
      break;
  }
  HEADRACE_CHECK(legal, "run phase", static_cast<int>(phase), "to", static_cast<int>(to));
  phase = to;
}

// ---- behaviour
// ------------------------------------------------------------------------------------

void SchedulerState::spawn_children(const Children& children) {
  const auto scheduler = caf::actor_cast<SchedulerHandle>(self);
  for (const StageArguments& arguments_of_stage : children.stages) {
    stages.push_back(children.detached
                         ? self->spawn<caf::detached>(stage_behavior, scheduler, arguments_of_stage)
                         : self->spawn(stage_behavior, scheduler, arguments_of_stage));
    self->monitor(stages.back());
  }
  data = children.detached ? self->spawn<caf::detached>(data_behavior, scheduler, children.data)
                           : self->spawn(data_behavior, scheduler, children.data);
  self->monitor(data);
  children_left = static_cast<std::int32_t>(stages.size()) + 1;
  // Weak references: a strong one would keep a stage's thread waiting for its own destruction for
  // ever.
  std::vector<caf::actor_addr> addresses;
  for (const StageHandle& stage : stages) addresses.push_back(stage.address());
  arguments.pipeline->doorbell().set_hook([addresses](Rank rank) {
    if (const auto alive = caf::actor_cast<caf::strong_actor_ptr>(addresses[rank.index()])) {
      caf::anon_send(caf::actor_cast<StageHandle>(alive), Wake{rank.value});
    }
  });
}

namespace {

// No exception leaves a handler: CAF would lose its text, and main would wait for ever.
template <typename Message>
auto guarded(SchedulerState& state, void (SchedulerState::*handle)(const Message&)) {
  return [&state, handle](const Message& message) {
    try {
      (state.*handle)(message);
    } catch (const std::exception& failure) {
      state.fail(Status(StatusCode::kInternal, std::string("scheduler: ") + failure.what()));
    }
  };
}

}  // namespace

namespace {

SchedulerHandle::behavior_type handlers(SchedulerState& state) {
  return {
      guarded(state, &SchedulerState::start),
      guarded(state, &SchedulerState::batch_loaded),
      guarded(state, &SchedulerState::batch_refused),
      guarded(state, &SchedulerState::progress_reported),
      guarded(state, &SchedulerState::norm_ready),
      guarded(state, &SchedulerState::applied),
      guarded(state, &SchedulerState::replay_done),
      guarded(state, &SchedulerState::stage_failed),
      guarded(state, &SchedulerState::state_reported),
      guarded(state, &SchedulerState::check_boards),
  };
}

}  // namespace

SchedulerHandle::behavior_type scheduler_behavior(
    SchedulerHandle::stateful_pointer<SchedulerState> self, SchedulerArguments arguments,
    Children children) {
  SchedulerState& state = self->state;
  state.self = self;
  state.arguments = std::move(arguments);
  const Plan& plan = state.arguments.pipeline->plan();
  state.ledger = std::make_unique<StepLedger>(plan);
  state.tracker = std::make_unique<MicrobatchTracker>(plan.program);
  std::vector<const kernels::Stream*> streams;
  for (const StageArguments& stage : children.stages) streams.push_back(&stage.worker->stream());
  state.watchdog = std::make_unique<Watchdog>(state.arguments.pipeline->board(), std::move(streams),
                                              plan.config.run.action_timeout_seconds);
  state.work_seconds.assign(static_cast<std::size_t>(plan.program.ranks), 0.0);
  try {
    state.spawn_children(children);
  } catch (const std::exception& error) {
    // A thread could not be started. Those that were wait for ever, so nobody may wait for them.
    state.failure = Status(StatusCode::kDeviceFailed,
                           "a thread per rank, " + std::to_string(plan.program.ranks) +
                               " of them, could not be started: " + error.what() +
                               "; lower pipeline.ranks or raise the limit of threads or memory");
    state.move(RunPhase::kDraining);
    state.end(true);
    return handlers(state);
  }
  self->set_down_handler([&state](const caf::down_msg& down) {
    state.child_ended(down.source, caf::to_string(down.reason));
  });
  return handlers(state);
}

}  // namespace headrace::actors
