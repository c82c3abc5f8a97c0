// A simulated program as a plain-text grid: a row per rank, a column per unit of time.
//
// What it is for: see warm-up, steady state and bubble at a glance. What it does not do: simulate.
// Thread rule: free function, safe on any thread.
#pragma once

#include "schedules/simulator.hpp"

#include <string>

namespace headrace::cli {

// Durations are expected to be whole units; an action longer than one unit is followed by dashes,
// idle time is dots.
[[nodiscard]] std::string schedule_grid(const schedules::Simulation& simulation);

}  // namespace headrace::cli
