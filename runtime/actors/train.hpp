// Train: all ranks of a plan in this process, one actor each, from step 1 to a result.
//
// What it is for: the one entry point that spawns actors; its header is free of CAF. What it does
// not do: parse, print or write files (the CLI does). Thread rule: one run per call; calls on
// different threads are independent.
#pragma once

#include "runtime/actors/plan.hpp"
#include "runtime/actors/rank_times.hpp"
#include "runtime/comm/link.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::actors {

struct StepRecord {
  StepIndex step{0};
  double loss = 0;       // nats per supervised token
  double grad_norm = 0;  // global, before clipping
  double learning_rate = 0;
  double seconds = 0;       // wall time since the previous commit
  double bubble = 0;        // global: 1 - compute / (P * seconds)
  std::int64_t tokens = 0;  // tokens of the batch
  std::int64_t supervised_tokens = 0;
  std::int64_t epoch = 0;
};

// Called on the scheduler's thread, once per committed step, in order; must not block for long.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void on_step(const StepRecord& record) = 0;
};

struct RunOptions {
  RunObserver* observer = nullptr;           // may be null; outlives the call
  const std::atomic<int>* signal = nullptr;  // non-zero: stop at the next step boundary
  bool detached = true;                      // a thread per rank; false: a shared pool
  comm::LinkFactory links = {};              // between ranks; empty: slots are handed over in place
};

struct RunResult {
  Status status;       // ok, also when stopped by a signal
  int signal = 0;      // the signal that ended it early, 0 none
  bool stuck = false;  // a rank's thread did not end: leave by _Exit
  std::int64_t first_step = 1;
  std::vector<StepRecord> steps;
  std::string state_hash;                // SHA-256 over state_lines, each with a line feed
  std::vector<std::string> state_lines;  // `name dtype shape sha256`, global order
  std::string numerics_id;
  double wall_seconds = 0;
  double cpu_us_per_action = 0;  // process CPU time of the run / actions issued
  double bubble_predicted = 0;   // global, simulated from the measured costs on these cores
  double step_seconds_predicted = 0;
  std::vector<RankTimes> times;                      // [rank]
  std::vector<std::int32_t> peak_activations;        // [rank] measured
  std::vector<std::int32_t> peak_activations_bound;  // [rank] from the validated program
};

// Opens the data, builds every rank, runs run.steps steps. Failures are in the result's status.
[[nodiscard]] RunResult train(const Plan& plan, const RunOptions& options = {});

}  // namespace headrace::actors
