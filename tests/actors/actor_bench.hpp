// CAF's test scheduler for the actor tests: one thread, one message at a time, virtual time.
//
// What it is for: a system whose jobs the test runs by hand, and a scheduler that only writes down
// what it is told. What it does not do: run detached actors. Thread rule: one thread.
#pragma once

#include "runtime/actors/detail/actors.hpp"

#include <caf/all.hpp>
#include <caf/scheduler/test_coordinator.hpp>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headrace::actors::testing {

class ActorBench {
 public:
  ActorBench() {
    config_.set("scheduler.policy", caf::atom("testing"));
    config_.set("scheduler.max-throughput", 1);
    config_.set("logger.verbosity", caf::atom("quiet"));
    system_ = std::make_unique<caf::actor_system>(config_);
    // A failed check must not wait for actors that nobody ends.
    system_->await_actors_before_shutdown(false);
  }

  [[nodiscard]] caf::actor_system& system() { return *system_; }
  [[nodiscard]] caf::scheduler::test_coordinator& jobs() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
  }
  // Runs up to `limit` messages; returns how many there were.
  std::size_t run(std::size_t limit = 1'000'000) {
    std::size_t done = 0;
    while (done < limit && jobs().try_run_once()) ++done;
    return done;
  }
  [[nodiscard]] bool no_mail_left() { return jobs().jobs.empty(); }

 private:
  caf::actor_system_config config_;
  std::unique_ptr<caf::actor_system> system_;
};

// The state of an actor, for looking at it between messages.
template <typename State, typename Handle>
State& state_of(const Handle& handle) {
  using Actor = std::remove_pointer_t<typename Handle::template stateful_pointer<State>>;
  return dynamic_cast<Actor&>(*caf::actor_cast<caf::abstract_actor*>(handle)).state;
}

// What the fake scheduler was told, in order.
struct Mail {
  std::vector<std::string> kinds;  // without ProgressReported
  std::vector<caf::actor_addr> senders;
  std::vector<NormReady> norms;
  std::vector<StepApplied> applied;
  std::vector<ReplayDone> replays;
  std::vector<StageFailed> failures;
  std::vector<StateReported> states;
  std::vector<ProgressReported> progress;
  std::vector<BatchLoaded> batches;
  std::vector<BatchRefused> refusals;
};

inline SchedulerHandle::behavior_type fake_scheduler(SchedulerHandle::pointer self, Mail* mail) {
  const auto note = [self, mail](const char* kind) {
    mail->kinds.emplace_back(kind);
    mail->senders.push_back(caf::actor_cast<caf::actor_addr>(self->current_sender()));
  };
  return {
      [](const StartRun&) {},
      [=](const BatchLoaded& message) {
        note("BatchLoaded");
        mail->batches.push_back(message);
      },
      [=](const BatchRefused& message) {
        note("BatchRefused");
        mail->refusals.push_back(message);
      },
      [=](const ProgressReported& message) { mail->progress.push_back(message); },
      [=](const NormReady& message) {
        note("NormReady");
        mail->norms.push_back(message);
      },
      [=](const StepApplied& message) {
        note("StepApplied");
        mail->applied.push_back(message);
      },
      [=](const ReplayDone& message) {
        note("ReplayDone");
        mail->replays.push_back(message);
      },
      [=](const StageFailed& message) {
        note("StageFailed");
        mail->failures.push_back(message);
      },
      [=](const StateReported& message) {
        note("StateReported");
        mail->states.push_back(message);
      },
      [](const CheckBoards&) {},
  };
}

}  // namespace headrace::actors::testing
