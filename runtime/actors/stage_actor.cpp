// StageActor: one rank. It advances while inputs are full and outputs are free, and parks
// otherwise.
#include "runtime/actors/detail/actors.hpp"
#include "runtime/base/clock.hpp"

#include <chrono>
#include <exception>
#include <sched.h>

namespace headrace::actors {
namespace {

using Self = StageHandle::stateful_pointer<StageState>;

// Yields before parking: a peer on another core answers within a few, and a wake costs 30 us.
constexpr int kYieldsBeforeParking = 200;
constexpr std::int64_t kReportEveryNs = 50'000'000;
constexpr auto kReportWaitAfter = std::chrono::milliseconds(100);

void report_progress(Self self) {
  StageState& state = self->state;
  state.reported_ns = monotonic_now_ns();
  self->send(state.scheduler,
             ProgressReported{state.worker->rank().value, state.worker->step().value,
                              state.worker->proven_position()});
}

// Sends what the worker has for the scheduler; true when the rank failed.
bool send_reports(Self self) {
  StageState& state = self->state;
  RankWorker& worker = *state.worker;
  if (auto applied = worker.take_applied()) self->send(state.scheduler, *applied);
  if (auto norm = worker.take_norm()) self->send(state.scheduler, std::move(*norm));
  if (auto replay = worker.take_replay()) self->send(state.scheduler, std::move(*replay));
  if (auto failure = worker.take_failure()) {
    self->send(state.scheduler, std::move(*failure));
    return true;
  }
  return false;
}

bool peer_answers(RankWorker& worker, WaitCause waiting) {
  if (waiting == WaitCause::kCommit || waiting == WaitCause::kNone) return worker.can_advance();
  for (int i = 0; i < kYieldsBeforeParking; ++i) {
    if (worker.can_advance()) return true;
    sched_yield();
  }
  return worker.can_advance();
}

void run(Self self) {
  StageState& state = self->state;
  RankWorker& worker = *state.worker;
  state.doorbell->awake(worker.rank());
  for (;;) {
    const WaitCause waiting = worker.advance();
    if (send_reports(self)) return;
    if (monotonic_now_ns() - state.reported_ns > kReportEveryNs) report_progress(self);
    if (peer_answers(worker, waiting)) continue;
    state.doorbell->sleep(worker.rank());
    if (worker.can_advance()) {
      state.doorbell->awake(worker.rank());
      continue;
    }
    if (!state.wait_timer && waiting != WaitCause::kNone) {
      state.wait_timer = true;
      self->delayed_send(self, kReportWaitAfter, ReportWait{worker.step().value});
    }
    return;
  }
}

// No exception leaves a handler: CAF would lose its text.
template <typename Body>
void guarded(Self self, Body&& body) {
  try {
    body();
  } catch (const std::exception& failure) {
    self->send(self->state.scheduler,
               StageFailed{self->state.worker->rank().value, self->state.worker->step().value,
                           "message handler", static_cast<std::int32_t>(StatusCode::kInternal),
                           failure.what()});
  }
}

}  // namespace

StageHandle::behavior_type stage_behavior(Self self, SchedulerHandle scheduler,
                                          StageArguments arguments) {
  self->state.worker = arguments.worker;
  self->state.doorbell = arguments.doorbell;
  self->state.scheduler = scheduler;
  return {
      [self](const RunStep& message) {
        guarded(self, [&] {
          self->state.worker->open(message);
          run(self);
        });
      },
      [self](const CommitStep& message) {
        guarded(self, [&] {
          self->state.worker->commit(message);
          run(self);
        });
      },
      [self](const Wake&) { guarded(self, [&] { run(self); }); },
      [self](const GetState&) {
        guarded(self, [&] {
          StateReported report = self->state.worker->report_state();
          if (!send_reports(self)) self->send(self->state.scheduler, std::move(report));
        });
      },
      [self](const ReportWait& message) {
        self->state.wait_timer = false;
        if (message.step == self->state.worker->step().value) report_progress(self);
      },
      [self](const Drain&) { self->quit(); },
  };
}

}  // namespace headrace::actors
