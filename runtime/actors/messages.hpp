// Every message between actors, in the order of the table in docs/ARCHITECTURE.md.
//
// What it is for: commands are imperative, facts past tense; each carries ids and numbers, never
// device pointers or tensors. What it does not do: include CAF (the handlers do). Thread rule:
// values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::actors {

// [Note: message table] docs/ARCHITECTURE.md lists these in the same order; a test compares the
// two.

// scheduler -> data: load the batch of this step into its buffer.
struct LoadBatch {
  std::int64_t step = 0;
};
template <class Inspector>
auto inspect(Inspector& f, LoadBatch& x) {
  return f(x.step);
}

// data -> scheduler: the batch is in place and every token was checked.
struct BatchLoaded {
  std::int64_t step = 0;
  std::int64_t supervised_tokens = 0;
  std::int64_t epoch = 0;
};
template <class Inspector>
auto inspect(Inspector& f, BatchLoaded& x) {
  return f(x.step, x.supervised_tokens, x.epoch);
}

// data -> scheduler: this step's batch cannot be used.
struct BatchRefused {
  std::int64_t step = 0;
  std::int32_t code = 0;  // StatusCode
  std::string text;
};
template <class Inspector>
auto inspect(Inspector& f, BatchRefused& x) {
  return f(x.step, x.code, x.text);
}

// scheduler -> stage: run this step's program. replay: same inputs again, looking for non-finite
// values.
struct RunStep {
  std::int64_t step = 0;
  std::int64_t supervised_tokens = 0;
  std::int64_t epoch = 0;
  std::int32_t replay = 0;
};
template <class Inspector>
auto inspect(Inspector& f, RunStep& x) {
  return f(x.step, x.supervised_tokens, x.epoch, x.replay);
}

// anybody -> stage: something you wait for may be there (coalesced: at most one per idle period).
struct Wake {
  std::int32_t rank = 0;
};
template <class Inspector>
auto inspect(Inspector& f, Wake& x) {
  return f(x.rank);
}

// stage -> scheduler: position in the program (at most every 50 ms, and on waits over 100 ms).
struct ProgressReported {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::int64_t position = 0;  // so many actions of this step's program are issued without a gap
};
template <class Inspector>
auto inspect(Inspector& f, ProgressReported& x) {
  return f(x.rank, x.step, x.position);
}

// stage -> scheduler: all gradients of this rank are complete; sums of squares by global parameter
// order, and the losses if the rank holds a head (by microbatch, from `loss_first` on).
struct NormReady {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::vector<std::int64_t> orders;
  std::vector<double> square_sums;
  std::vector<double> loss_sums;
  std::int32_t loss_first = 0;
  double work_seconds = 0;  // since the run began
};
template <class Inspector>
auto inspect(Inspector& f, NormReady& x) {
  return f(x.rank, x.step, x.orders, x.square_sums, x.loss_sums, x.loss_first, x.work_seconds);
}

// scheduler -> stage: apply the update of this step; open_next tells whether the next step follows
// at once.
struct CommitStep {
  std::int64_t step = 0;
  float learning_rate = 0;
  float bias_correction1 = 1;
  float bias_correction2 = 1;
  float gradient_scale = 1;
  std::int32_t apply = 1;  // 0: no supervised tokens: the step changes nothing
  std::int32_t open_next = 0;
  RunStep next;
};
template <class Inspector>
auto inspect(Inspector& f, CommitStep& x) {
  return f(x.step, x.learning_rate, x.bias_correction1, x.bias_correction2, x.gradient_scale,
           x.apply, x.open_next, x.next);
}

// stage -> scheduler: the update of this step is in the weights.
struct StepApplied {
  std::int32_t rank = 0;
  std::int64_t step = 0;
};
template <class Inspector>
auto inspect(Inspector& f, StepApplied& x) {
  return f(x.rank, x.step);
}

// stage -> scheduler: result of a replayed step.
struct ReplayDone {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::int32_t found = 0;
  std::int32_t backward = 0;
  std::int32_t stage = 0;
  std::int32_t layer = 0;
  std::int32_t microbatch = 0;
  std::string tensor;
};
template <class Inspector>
auto inspect(Inspector& f, ReplayDone& x) {
  return f(x.rank, x.step, x.found, x.backward, x.stage, x.layer, x.microbatch, x.tensor);
}

// stage -> scheduler: this stage cannot go on.
struct StageFailed {
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::string where;  // action, e.g. `2F0`
  std::int32_t code = 0;
  std::string text;
};
template <class Inspector>
auto inspect(Inspector& f, StageFailed& x) {
  return f(x.rank, x.step, x.where, x.code, x.text);
}

// scheduler -> stage: report the hashes of your state and your times.
struct GetState {
  std::int64_t step = 0;
};
template <class Inspector>
auto inspect(Inspector& f, GetState& x) {
  return f(x.step);
}

// stage -> scheduler: a line `name dtype shape sha256` per tensor, with its global order; wall time
// by cause.
struct StateReported {
  std::int32_t rank = 0;
  std::vector<std::int64_t> orders;
  std::vector<std::string> lines;
};
template <class Inspector>
auto inspect(Inspector& f, StateReported& x) {
  return f(x.rank, x.orders, x.lines);
}

// scheduler -> stage and data: end now; nothing that is under way is finished.
struct Drain {
  std::int32_t failed = 0;
};
template <class Inspector>
auto inspect(Inspector& f, Drain& x) {
  return f(x.failed);
}

// main -> scheduler: begin.
struct StartRun {
  std::int64_t first_step = 1;
};
template <class Inspector>
auto inspect(Inspector& f, StartRun& x) {
  return f(x.first_step);
}

// scheduler -> itself: look at the boards (once a second).
struct CheckBoards {
  std::int64_t tick = 0;
};
template <class Inspector>
auto inspect(Inspector& f, CheckBoards& x) {
  return f(x.tick);
}

// scheduler -> main: the run is over; the outcome lies in the run's shared record.
struct RunEnded {
  std::int32_t stuck = 0;  // 1: a rank did not answer; its thread must not be waited for
};
template <class Inspector>
auto inspect(Inspector& f, RunEnded& x) {
  return f(x.stuck);
}

// stage -> itself: you have been parked for 100 ms.
struct ReportWait {
  std::int64_t step = 0;
};
template <class Inspector>
auto inspect(Inspector& f, ReportWait& x) {
  return f(x.step);
}

}  // namespace headrace::actors
