// Behaviours of the three actors and what they are spawned with.
//
// What it is for: spawning, in train.cpp and in actor tests. What it does not do: hold state others
// may touch. Thread rule: the pointed-to parts outlive the actors; each is used as its own header
// says.
#pragma once

#include "runtime/actors/detail/handles.hpp"
#include "runtime/actors/microbatch_tracker.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "runtime/actors/step_ledger.hpp"
#include "runtime/actors/train.hpp"
#include "runtime/actors/watchdog.hpp"
#include "runtime/data/batch.hpp"

#include <atomic>
#include <cstdint>
#include <vector>

namespace headrace::actors {

// ---- stage
// ----------------------------------------------------------------------------------------

struct StageState {
  static constexpr const char* name = "stage";
  RankWorker* worker = nullptr;
  Doorbell* doorbell = nullptr;
  SchedulerHandle scheduler;
  std::int64_t reported_ns = 0;
  bool wait_timer = false;  // a ReportWait is under way
};

struct StageArguments {
  RankWorker* worker =
      nullptr;  // owned by the run, used by this actor's thread only while it lives
  Doorbell* doorbell = nullptr;
};

StageHandle::behavior_type stage_behavior(StageHandle::stateful_pointer<StageState> self,
                                          SchedulerHandle scheduler, StageArguments arguments);

// ---- data
// -----------------------------------------------------------------------------------------

struct DataState {
  static constexpr const char* name = "data";
  data::BatchLoader* loader = nullptr;
  Pipeline* pipeline = nullptr;
  SchedulerHandle scheduler;
};

struct DataArguments {
  data::BatchLoader* loader = nullptr;
  Pipeline* pipeline = nullptr;
};

DataHandle::behavior_type data_behavior(DataHandle::stateful_pointer<DataState> self,
                                        SchedulerHandle scheduler, DataArguments arguments);

// ---- scheduler
// ------------------------------------------------------------------------------------

// Life of a run: one enum, one place that moves it (SchedulerState::move).
enum class RunPhase : std::uint8_t {
  kIdle,        // not started
  kRunning,     // steps are open
  kReplaying,   // a step broke: looking for the first offender
  kCollecting,  // the last step is applied: state is being reported
  kDraining,    // everybody was told to end
  kEnded,
};

struct SchedulerArguments {
  Pipeline* pipeline = nullptr;
  RunObserver* observer = nullptr;
  const std::atomic<int>* signal = nullptr;
  RunResult* result = nullptr;  // filled by the scheduler, read by main after RunEnded
  caf::actor main;              // receives RunEnded
  std::int64_t last_step = 0;
};

// Spawns the stages and the data actor itself, so that it can monitor them.
struct Children {
  std::vector<StageArguments> stages;  // [rank]
  DataArguments data;
  bool detached = true;
};

struct SchedulerState;
SchedulerHandle::behavior_type scheduler_behavior(
    SchedulerHandle::stateful_pointer<SchedulerState> self, SchedulerArguments arguments,
    Children children);

struct SchedulerState {
  static constexpr const char* name = "scheduler";

  void start(const StartRun& message);
  void batch_loaded(const BatchLoaded& message);
  void batch_refused(const BatchRefused& message);
  void norm_ready(const NormReady& message);
  void applied(const StepApplied& message);
  void replay_done(const ReplayDone& message);
  void state_reported(const StateReported& message);
  void stage_failed(const StageFailed& message);
  void child_ended(const caf::actor_addr& child, const std::string& reason);
  void check_boards(const CheckBoards& message);
  void progress_reported(const ProgressReported& message);
  void check_progress();
  void heed_signal();
  void fail(Status status);

  void spawn_children(const Children& children);
  void open_first();
  void decide();
  void commit(const StepOutcome& outcome);
  void record(const StepOutcome& outcome);
  void ask_for_batch(std::int64_t step);
  void begin_replay(const StepOutcome& outcome);
  void name_offender();
  void finish_state();
  void drain(bool failed);
  void end(bool stuck);
  void move(RunPhase to);
  template <typename Message>
  void to_all(const Message& message);

  SchedulerHandle::stateful_pointer<SchedulerState> self = nullptr;
  SchedulerArguments arguments;
  std::vector<StageHandle> stages;
  DataHandle data;
  std::unique_ptr<StepLedger> ledger;
  std::unique_ptr<MicrobatchTracker> tracker;

  RunPhase phase = RunPhase::kIdle;
  std::int64_t step = 0;  // open
  BatchLoaded batch;      // of the open step
  std::optional<BatchLoaded> next_batch;
  std::optional<StepOutcome> undecided;  // all ranks reported, the next batch is still missing
  bool last = false;                     // the open step was committed as the last
  std::int32_t applied_count = 0;
  std::vector<ReplayDone> replays;
  std::string broken_text;  // what was not finite
  std::vector<StateReported> states;
  std::int32_t children_left = 0;
  std::int64_t step_began_ns = 0;
  std::vector<double> work_seconds;  // [rank] at the last commit
  double work_delta = 0;
  Status failure;
  std::int64_t drain_began_ns = 0;
  std::unique_ptr<Watchdog> watchdog;
  std::int64_t batch_asked_ns = 0;  // since when a batch is being loaded, 0 none
  bool opened = false;              // the first step
};

}  // namespace headrace::actors
