// Where every microbatch is, from the ranks' reported positions and the static program.
//
// What it is for: a hang report that names microbatches and not only ranks. What it does not do:
// time anything. Thread rule: owned by one thread.
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::actors {

class MicrobatchTracker {
 public:
  explicit MicrobatchTracker(const schedules::Program& program);

  void report(Rank rank, StepIndex step, std::int64_t position);
  // The furthest action of m that the reports prove issued in `step`, e.g. `2F3`, or "not started".
  [[nodiscard]] std::string furthest(StepIndex step, MicrobatchIndex m) const;
  // Microbatches that have begun but not finished their backward on stage 0, with their furthest
  // action.
  [[nodiscard]] std::string in_flight(StepIndex step) const;

 private:
  struct Position {
    StepIndex step{0};
    std::int64_t issued = 0;
  };

  // Null: not started.
  [[nodiscard]] const schedules::Action* furthest_action(StepIndex step, MicrobatchIndex m) const;

  const schedules::Program& program_;
  std::vector<Position> positions_;  // [rank]
};

}  // namespace headrace::actors
