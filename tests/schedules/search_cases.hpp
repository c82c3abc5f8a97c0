// Problems for the search and what its results are compared with.
#pragma once

#include "schedules/detail/generators.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace headrace::schedules::testing {

// What auto minimises: the largest span of a rank, then the makespan.
struct Price {
  double span = 0;
  double makespan = 0;
  double bubble_span = 0;
};

inline Price price_of(const Program& program, const SearchGoal& goal) {
  SimulationOptions options;
  options.stages = goal.stages;
  options.hop = goal.hop;
  const Simulation simulation = simulate(program, options);
  Price price{0, simulation.makespan, simulation.bubble_span};
  for (const auto& row : simulation.timeline)
    price.span = std::max(price.span, row.back().end - row.front().start);
  return price;
}

inline std::int32_t peak_of(const Program& program) {
  const ProgramFacts facts = validate(program).value();
  return *std::max_element(facts.peak_activations.begin(), facts.peak_activations.end());
}

inline ScheduleSpec auto_spec(std::int32_t ranks, std::int32_t microbatches, std::int32_t chunks) {
  ScheduleSpec spec;
  spec.name = "auto";
  spec.ranks = ranks;
  spec.microbatches = microbatches;
  spec.chunks = chunks;
  spec.search.measure = SearchMeasure::kSpan;
  return spec;
}

// The schedules with backward and one replica that exist for the shape of `spec`.
inline std::vector<Program> named_programs(const ScheduleSpec& spec) {
  std::vector<Program> programs;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;
    ScheduleSpec named = spec;
    named.name = std::string(info.name);
    named.search = SearchGoal{};
    Result<Program> made = make_program(named);
    if (!made.is_ok() || made->forward_only || made->placement == Placement::kBidirectional)
      continue;
    programs.push_back(std::move(made.value()));
  }
  return programs;
}

// Table 9 of arXiv 2401.10241, the row that golden.json repeats: milliseconds of one stage of the
// 1.5B model, P = 8, M = 24. With several chunks a stage is cut evenly.
inline ScheduleSpec paper_spec(std::int32_t chunks, std::int32_t activation_limit) {
  ScheduleSpec spec = auto_spec(8, 24, chunks);
  spec.search.stages = {{18.522 / chunks, 18.086 / chunks, 9.337 / chunks}};
  spec.search.hop = 0.601;
  spec.search.activation_limit = activation_limit;
  return spec;
}

// A problem drawn from `random`: small, unequal, often short of memory.
inline ScheduleSpec draw_spec(std::mt19937* random) {
  const auto below = [&](std::int32_t count) {
    return static_cast<std::int32_t>((*random)() % static_cast<std::uint32_t>(count));
  };
  constexpr std::int32_t kChunks[] = {1, 1, 2, 2, 3, 4};
  ScheduleSpec spec = auto_spec(1 + below(4), 1 + below(8), kChunks[below(6)]);
  const std::int32_t stages = spec.ranks * spec.chunks;
  const std::int32_t costs = below(3) == 0 ? 1 : stages;
  for (std::int32_t s = 0; s < costs; ++s)
    spec.search.stages.push_back({1 + below(4) * 0.5, 1 + below(4) * 0.5, below(5) * 0.5});
  spec.search.hop = below(3) * 0.25;
  spec.search.activation_limit =
      below(3) == 0 ? 0 : spec.chunks + below(2 * spec.ranks * spec.chunks);
  return spec;
}

inline std::string describe(const ScheduleSpec& spec) {
  return "P=" + std::to_string(spec.ranks) + " M=" + std::to_string(spec.microbatches) +
         " V=" + std::to_string(spec.chunks) +
         " limit=" + std::to_string(spec.search.activation_limit) +
         " hop=" + std::to_string(spec.search.hop);
}

}  // namespace headrace::schedules::testing
