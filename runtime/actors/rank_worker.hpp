// What one rank does: issue the actions of its program while inputs are full and outputs are free.
//
// What it is for: the logic of a StageActor as a plain class, testable without actors. It owns the
// rank's stream and stages and never blocks: advance() issues what it can and says why it stopped.
// What it does not do: send messages (its owner collects them) or decide anything about a step.
// Thread rule: owned by one thread after create().
//
// Invariants
//  1. An action is issued only when every input slot is full, every output slot is free and a frame
//  is
//     there; it is never half issued.
//  2. An input slot is given back once the input gradient that reads it was enqueued.
//  3. After a failure nothing is issued any more.
#pragma once

#include "runtime/actors/action_queues.hpp"
#include "runtime/actors/messages.hpp"
#include "runtime/actors/pipeline.hpp"
#include "runtime/actors/rank_times.hpp"
#include "stages/stage.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace headrace::actors {

class RankWorker {
 public:
  // Builds stream and stages. kConfig, or kDeviceFailed when memory cannot be had.
  [[nodiscard]] static Result<std::unique_ptr<RankWorker>> create(Pipeline& pipeline, Rank rank);
  // Blocks until its stream is idle; with the stop flag raised that is at once.
  ~RankWorker();
  RankWorker(const RankWorker&) = delete;
  RankWorker& operator=(const RankWorker&) = delete;

  void open(const RunStep& message);
  void commit(const CommitStep& message);
  // Issues everything that can be issued now. Returns the cause it stopped for; kNone: no step is
  // open.
  WaitCause advance();
  // True when advance() would get further. Looks at words only.
  [[nodiscard]] bool can_advance();

  // What the owner must send, each at most once.
  [[nodiscard]] std::optional<NormReady> take_norm();
  [[nodiscard]] std::optional<ReplayDone> take_replay();
  [[nodiscard]] std::optional<StepApplied> take_applied();
  [[nodiscard]] std::optional<StageFailed> take_failure();

  [[nodiscard]] StateReported
  report_state();  // blocks until the device is idle; between steps only
  [[nodiscard]] const RankTimes& times() const { return times_; }
  [[nodiscard]] std::int32_t peak_activations() const { return peak_activations_; }
  [[nodiscard]] StepIndex step() const { return step_; }
  [[nodiscard]] std::int64_t position() const { return queues_.issued() + end_next_; }
  // The part of the program that is issued without a gap: what a report proves.
  [[nodiscard]] std::int64_t proven_position() const { return queues_.issued_prefix() + end_next_; }
  [[nodiscard]] Rank rank() const { return rank_; }
  [[nodiscard]] const kernels::Stream& stream() const { return *stream_; }
  [[nodiscard]] stages::Stage& stage(ChunkIndex chunk) { return *chunks_[chunk.index()].stage; }

 private:
  enum class Progress : std::uint8_t { kNothing, kForward, kInput, kDone };  // of a microbatch

  // One stage of this rank, its neighbours and what it holds right now.
  struct Chunk {
    StageIndex index{0};
    ReplicaIndex replica{0};
    std::int32_t first_microbatch = 0;  // of the replica
    std::unique_ptr<stages::Stage> stage;
    comm::Boundary* input = nullptr;         // activations from the stage below
    comm::Boundary* output = nullptr;        // activations to the stage above
    comm::Boundary* gradient_in = nullptr;   // gradients from the stage above
    comm::Boundary* gradient_out = nullptr;  // gradients to the stage below
    comm::Boundary* roots_out = nullptr;     // gradient sums to the other replica
    comm::Boundary* roots_in = nullptr;
    Rank below{0}, above{0}, twin{0};
    stages::FrameCapacity frames;
    std::int32_t stash = 0, activations = 0, weight_inputs = 0;  // in use
    std::int32_t weights_added = 0;                              // W issued in this step
    std::vector<std::int32_t> held_slot;  // [m] slot of `input` held from F to I
    std::vector<Progress> progress;       // [m]
  };

  // Where an action would read and write; found by prepare, used by issue.
  struct Prepared {
    std::int32_t in = comm::Boundary::kNone;
    std::int32_t out = comm::Boundary::kNone;
    WaitCause waiting = WaitCause::kNone;
  };

  RankWorker(Pipeline& pipeline, Rank rank);
  [[nodiscard]] Status build();
  [[nodiscard]] Status build_chunk(const HeldStage& held);
  void connect(Chunk& chunk);

  [[nodiscard]] Chunk& chunk_of(StageIndex stage);
  [[nodiscard]] Prepared prepare(const schedules::Action& action);
  [[nodiscard]] bool may_add(const Chunk& chunk, MicrobatchIndex m) const;
  [[nodiscard]] Prepared prepare_forward(Chunk& chunk, MicrobatchIndex m) const;
  [[nodiscard]] Prepared prepare_backward(Chunk& chunk, const schedules::Action& action) const;
  [[nodiscard]] Prepared prepare_step_end(const schedules::Action& action);

  void begin(const RunStep& message);
  WaitCause advance_unguarded();
  WaitCause step_once();
  void issue(const schedules::Action& action, const Prepared& prepared);
  void issue_forward(Chunk& chunk, MicrobatchIndex m, const Prepared& prepared);
  void issue_input(Chunk& chunk, MicrobatchIndex m, const Prepared& prepared);
  void issue_weight(Chunk& chunk, MicrobatchIndex m);
  void issue_step_end(const schedules::Action& action, const Prepared& prepared);
  void send_roots();
  void issue_reduce(Chunk& chunk, std::int32_t slot);
  void issue_tied_send();
  void issue_tied_receive(std::int32_t slot);
  void issue_optimizer();
  void finish_norm();
  void poll_applied();
  void inject_faults(Chunk& chunk, MicrobatchIndex m);
  void fail(const Status& status, const std::string& where);
  void show(const schedules::Action& action, WaitCause waiting);
  void charge_wait();
  void count_forward(Chunk& chunk);
  [[nodiscard]] kernels::HostCall bell() const;
  [[nodiscard]] bool counted() const { return step_.value > first_step_; }

  // Constant after build.
  Pipeline& pipeline_;
  const Plan& plan_;
  Rank rank_;
  std::unique_ptr<kernels::Stream> stream_;
  kernels::Buffer workspace_;
  std::vector<Chunk> chunks_;
  std::vector<std::int32_t> chunk_of_stage_;  // -1: elsewhere
  std::vector<schedules::Action> end_actions_;
  std::unique_ptr<kernels::Event> norm_event_;
  std::unique_ptr<kernels::Event> applied_event_;

  // Owned by the rank's thread.
  ActionQueues queues_;
  StepIndex step_{0};
  StepIndex pass_{0};  // key of this pass' slots, see [Note: replay pass]
  std::int64_t first_step_ = 0;
  bool open_ = false;
  bool replay_ = false;
  bool norm_recorded_ = false;
  bool roots_sent_ = false;
  std::int64_t end_next_ = 0;
  std::optional<CommitStep> commit_;
  std::int64_t applied_pending_ = 0;  // step whose applied_event_ is recorded, 0 none
  std::optional<NormReady> norm_out_;
  std::optional<ReplayDone> replay_out_;
  std::optional<StepApplied> applied_out_;
  std::optional<StageFailed> failure_out_;
  bool failed_ = false;
  schedules::Action issuing_;  // the newest one, for what goes wrong inside it
  std::int32_t activations_ = 0;
  std::int32_t peak_activations_ = 0;
  WaitCause blocked_ = WaitCause::kNone;
  TimeAccount account_;
  RankTimes times_;
};

}  // namespace headrace::actors
