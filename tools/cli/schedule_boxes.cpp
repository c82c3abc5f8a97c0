#include "tools/cli/schedule_boxes.hpp"

#include <algorithm>
#include <cstddef>

namespace headrace::cli {
namespace {

std::vector<Box> boxes_of(const std::vector<schedules::SimulatedAction>& actions) {
  std::vector<Box> boxes;
  bool in_pair = false;
  for (const schedules::SimulatedAction& simulated : actions) {
    if (in_pair) {
      Box& block = boxes.back();
      block.partner = simulated.action;
      block.start = std::min(block.start, simulated.start);
      block.end = std::max(block.end, simulated.end);
      in_pair = false;
      continue;
    }
    boxes.push_back({simulated.action, std::nullopt, simulated.start, simulated.end});
    in_pair = simulated.action.overlaps_next;
  }
  return boxes;
}

std::vector<Wait> waits_of(const std::vector<Box>& boxes, double makespan) {
  const double least = 1e-9 * makespan;  // what rounding leaves between two boxes
  std::vector<Wait> waits;
  double time = 0;
  for (const Box& box : boxes) {
    if (box.start - time > least) waits.push_back({time, box.start});
    time = std::max(time, box.end);
  }
  if (makespan - time > least) waits.push_back({time, makespan});
  return waits;
}

}  // namespace

std::vector<BoxRow> rows_of(const schedules::Simulation& simulation) {
  std::vector<BoxRow> rows;
  for (const auto& actions : simulation.timeline) {
    BoxRow row;
    row.boxes = boxes_of(actions);
    row.waits = waits_of(row.boxes, simulation.makespan);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::int32_t chunk_of(const schedules::Program& program, const schedules::Action& action) {
  switch (program.placement) {
    case schedules::Placement::kBidirectional:
      return action.microbatch.value < program.microbatches / 2 ? 0 : 1;
    case schedules::Placement::kTable: {
      const auto end = program.stage_ranks.begin() + action.stage.value;
      return static_cast<std::int32_t>(std::count(program.stage_ranks.begin(), end, *end));
    }
    default:
      return action.stage.value / program.ranks;
  }
}

}  // namespace headrace::cli
