// A simulated program as a grid of characters: a row per rank, a column per unit of time.
//
// What it is for: see warm-up, steady state and bubble at a glance. What it does not do: simulate,
// or look at the terminal. Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/simulator.hpp"

#include <cstddef>
#include <string>

namespace headrace::cli {

struct GridScale {
  double unit = 1;       // time of a column
  bool is_exact = true;  // every start and end falls on a column's edge
};

// The widest column on whose edges everything starts and ends; if there is none within reason, the
// shortest action, and starts and ends are rounded.
[[nodiscard]] GridScale grid_scale(const schedules::Simulation& simulation);

struct GridOptions {
  bool colour = false;             // by kind, chunk and microbatch, for terminals with 256 colours
  std::size_t characters_max = 0;  // per line; the grid is folded into bands; 0 = never
};

// An action longer than one column is followed by dashes (or its colour), a pair is its two actions
// with & between them, idle time is dots.
[[nodiscard]] std::string schedule_grid(const schedules::Program& program,
                                        const schedules::Simulation& simulation,
                                        const GridOptions& options = {});

}  // namespace headrace::cli
