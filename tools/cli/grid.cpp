#include "tools/cli/grid.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace headrace::cli {
namespace {

std::size_t column_of(double time) { return static_cast<std::size_t>(std::lround(time)); }

using Row = std::vector<std::string>;

Row make_row(const std::vector<schedules::SimulatedAction>& actions, std::size_t columns) {
  Row row(columns, ".");
  for (const schedules::SimulatedAction& simulated : actions) {
    const std::size_t begin = column_of(simulated.start);
    const std::size_t end = std::min(column_of(simulated.end), columns);
    for (std::size_t c = begin; c < end; ++c) {
      row[c] = c == begin ? schedules::to_string(simulated.action) : "-";
    }
  }
  return row;
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

}  // namespace

std::string schedule_grid(const schedules::Simulation& simulation) {
  const std::size_t columns = column_of(simulation.makespan);
  std::vector<Row> rows;
  std::size_t width = 1;
  for (const auto& actions : simulation.timeline) {
    rows.push_back(make_row(actions, columns));
    for (const std::string& cell : rows.back()) width = std::max(width, cell.size());
  }
  const std::size_t label_width = std::to_string(rows.size()).size() + 6;
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::string line = padded("rank " + std::to_string(r), label_width);
    for (const std::string& cell : rows[r]) line += padded(cell, width + 1);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace headrace::cli
