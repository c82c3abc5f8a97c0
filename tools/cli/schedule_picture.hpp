// A simulated program as a picture: SVG, and a page around it.
//
// What it is for: slides, papers and a look at waits; every box stands where the simulator starts
// it. What it does not do: simulate, or fetch anything: the page holds all it needs. Thread rule:
// free functions, safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"

#include <string>

namespace headrace::cli {

struct PictureInput {
  const schedules::Program& program;
  const schedules::ProgramFacts& facts;
  const schedules::Simulation& simulation;
  std::string durations;  // e.g. `F 1, B 2, hop 0`
  bool critical_path = false;
};

// kUsage with the numbers when there are more boxes than a viewer can show.
[[nodiscard]] Status check_picture(const PictureInput& input);
// @pre check_picture succeeded.
[[nodiscard]] std::string schedule_svg(const PictureInput& input);
[[nodiscard]] std::string schedule_html(const PictureInput& input);

}  // namespace headrace::cli
