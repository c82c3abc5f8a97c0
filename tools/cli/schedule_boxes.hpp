// A simulated program as boxes and waits: what every picture draws.
//
// What it is for: text grid, SVG and HTML show the same thing, each box where the simulator starts
// it and the waits where they are. What it does not do: draw. Thread rule: free functions, safe on
// any thread.
#pragma once

#include "schedules/simulator.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace headrace::cli {

struct Box {
  schedules::Action action;
  // The backward of an overlap pair; start and end are those of the whole block.
  std::optional<schedules::Action> partner;
  double start = 0;
  double end = 0;
};

struct Wait {
  double start = 0;
  double end = 0;
};

struct BoxRow {
  std::vector<Box> boxes;   // by start
  std::vector<Wait> waits;  // by start, from 0 to the makespan, none empty
};

// [rank]
[[nodiscard]] std::vector<BoxRow> rows_of(const schedules::Simulation& simulation);

// Which of its rank's stages the action belongs to, from 0; with bidirectional placement, which of
// the two replicas.
[[nodiscard]] std::int32_t chunk_of(const schedules::Program& program,
                                    const schedules::Action& action);

}  // namespace headrace::cli
