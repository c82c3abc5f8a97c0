// Where the wall time of a rank went, and what its actions cost.
//
// What it is for: the table after a run (causes sum to wall time), the measured bubble and the
// costs the simulator predicts with. What it does not do: know schedules. Thread rule: owned by the
// rank's thread.
#pragma once

#include "runtime/base/clock.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace headrace::actors {

enum class TimeCause : std::uint8_t {
  kCompute,         // F, B, I, W
  kActivation,      // waiting for an activation, or for a free slot to put one in
  kGradient,        // waiting for a gradient, or for a free slot to put one in
  kOptimizer,       // the step's end, the wait for the commit included
  kData,            // waiting for the step to open
  kOversubscribed,  // ready, but without a core
};
inline constexpr std::size_t kTimeCauses = 6;

// Seconds summed over the counted actions of one stage.
struct StageSeconds {
  double forward = 0, backward_input = 0, backward_weight = 0;
  std::int64_t forwards = 0, backward_inputs = 0, backward_weights = 0;
};

struct RankTimes {
  std::array<double, kTimeCauses> seconds{};
  std::vector<StageSeconds> stages;  // [chunk]
  double step_end = 0;               // seconds computing in the step's end, counted steps
  double work = 0;                   // seconds of useful work, all steps, the step's end included
  std::int64_t steps = 0;            // counted steps
  std::int64_t actions = 0;
};

// A stopwatch that charges the time since its last call. Compute is charged by thread CPU time
// where the rank computes in its own thread; the rest of that wall time is oversubscription.
//
// [Note: CPU clock] Reading a thread's CPU clock is a system call, which took a third of the CPU
// time of actions that do nothing. So after a run of short work the clock is left alone, and all of
// its wall time counts as useful, until something takes long again.
class TimeAccount {
 public:
  explicit TimeAccount(bool own_thread) : own_thread_(own_thread) {}

  void start() {
    wall_ns_ = monotonic_now_ns();
    cpu_ns_ = read_cpu();
  }
  // Returns the seconds of useful work if `work`, else of waiting.
  double charge(RankTimes& times, TimeCause cause, bool work) {
    const std::int64_t wall = monotonic_now_ns();
    if (work) short_in_a_row_ = wall - wall_ns_ < kShortNs ? short_in_a_row_ + 1 : 0;
    const std::int64_t cpu = read_cpu();
    const double wall_seconds = static_cast<double>(wall - wall_ns_) * 1e-9;
    double useful = wall_seconds;
    if (work && cpu != kUnread && cpu_ns_ != kUnread) {
      useful = static_cast<double>(cpu - cpu_ns_) * 1e-9;
      if (useful > wall_seconds) useful = wall_seconds;
      times.seconds[static_cast<std::size_t>(TimeCause::kOversubscribed)] += wall_seconds - useful;
    }
    times.seconds[static_cast<std::size_t>(cause)] += useful;
    if (work) times.work += useful;
    wall_ns_ = wall;
    cpu_ns_ = cpu;
    return useful;
  }
  [[nodiscard]] std::int64_t last_ns() const { return wall_ns_; }

 private:
  static constexpr std::int64_t kUnread = -1;
  static constexpr std::int64_t kShortNs = 20'000;
  // The short actions of a step's end between long ones must not switch the clock off.
  static constexpr std::int64_t kShortRun = 32;

  [[nodiscard]] std::int64_t read_cpu() const {
    return own_thread_ && short_in_a_row_ < kShortRun ? thread_cpu_now_ns() : kUnread;
  }

  bool own_thread_;
  std::int64_t short_in_a_row_ = 0;
  std::int64_t wall_ns_ = 0;
  std::int64_t cpu_ns_ = kUnread;
};

}  // namespace headrace::actors
