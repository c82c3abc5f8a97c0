#include "tools/cli/grid.hpp"

#include "tools/cli/schedule_boxes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace headrace::cli {
namespace {

constexpr double kColumnsMax = 4096;
constexpr int kDivisionsMax = 16;

bool falls_on_edges(const std::vector<BoxRow>& rows, double unit) {
  const auto is_edge = [unit](double time) {
    const double columns = time / unit;
    return std::abs(columns - std::round(columns)) < 1e-6;
  };
  return std::all_of(rows.begin(), rows.end(), [&](const BoxRow& row) {
    return std::all_of(row.boxes.begin(), row.boxes.end(),
                       [&](const Box& box) { return is_edge(box.start) && is_edge(box.end); });
  });
}

double shortest_box(const std::vector<BoxRow>& rows, double makespan) {
  double shortest = makespan;
  for (const BoxRow& row : rows)
    for (const Box& box : row.boxes)
      if (box.end > box.start) shortest = std::min(shortest, box.end - box.start);
  return shortest;
}

struct Cell {
  std::string text;
  const Box* box = nullptr;  // null: idle
};

using CellRow = std::vector<Cell>;

CellRow cells_of(const BoxRow& row, std::size_t columns, double unit) {
  const auto column = [&](double time) {
    return std::min(static_cast<std::size_t>(std::lround(time / unit)), columns);
  };
  CellRow cells(columns, Cell{".", nullptr});
  for (const Box& box : row.boxes) {
    const std::size_t begin = column(box.start);
    const std::size_t end = column(box.end);
    for (std::size_t c = begin; c < end; ++c) cells[c] = {"-", &box};
    if (begin == end) continue;
    cells[begin].text = schedules::to_string(box.action);
    if (!box.partner) continue;
    const std::string partner = "&" + schedules::to_string(*box.partner);
    if (end - begin > 1)
      cells[begin + 1].text = partner;
    else
      cells[begin].text += partner;
  }
  return cells;
}

// Background by kind, then chunk (light, dark), then microbatch (even, odd).
std::string colour_of(const schedules::Program& program, const schedules::Action& action) {
  using Tones = std::array<std::array<int, 2>, 2>;
  static constexpr std::array<Tones, 4> kTones = {{
      {{{153, 117}, {32, 26}}},   // F
      {{{157, 114}, {34, 28}}},   // B
      {{{158, 122}, {36, 30}}},   // I
      {{{223, 215}, {172, 130}}}  // W
  }};
  const auto dark = static_cast<std::size_t>(chunk_of(program, action) % 2);
  const auto odd = static_cast<std::size_t>(action.microbatch.value % 2);
  const int background = kTones[static_cast<std::size_t>(action.kind)][dark][odd];
  return "\x1b[38;5;" + std::string(dark == 1 ? "231" : "16") + ";48;5;" +
         std::to_string(background) + "m";
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

class GridWriter {
 public:
  GridWriter(const schedules::Program& program, std::vector<CellRow> rows, bool colour)
      : program_(program), rows_(std::move(rows)), colour_(colour) {
    for (const CellRow& row : rows_)
      for (const Cell& cell : row) width_ = std::max(width_, cell.text.size() + 1);
    label_width_ = std::to_string(rows_.size()).size() + 6;
  }

  // How many columns a line of so many characters holds.
  [[nodiscard]] std::size_t columns_in(std::size_t characters) const {
    return std::max<std::size_t>(
        1, characters > label_width_ ? (characters - label_width_) / width_ : 1);
  }

  [[nodiscard]] std::string band(std::size_t begin, std::size_t end) const {
    std::string text;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      text += padded("rank " + std::to_string(r), label_width_) + line(rows_[r], begin, end) + "\n";
    return text;
  }

 private:
  [[nodiscard]] std::string line(const CellRow& row, std::size_t begin, std::size_t end) const {
    std::string text;
    for (std::size_t c = begin; c < end; ++c) {
      const Cell& cell = row[c];
      if (!colour_ || cell.box == nullptr) {
        text += padded(cell.text, width_);
        continue;
      }
      const bool is_partner = cell.text.front() == '&' && cell.box->partner;
      text += colour_of(program_, is_partner ? *cell.box->partner : cell.box->action) +
              padded(cell.text == "-" ? "" : cell.text, width_) + "\x1b[0m";
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  const schedules::Program& program_;
  std::vector<CellRow> rows_;
  bool colour_;
  std::size_t width_ = 2;
  std::size_t label_width_ = 0;
};

}  // namespace

GridScale grid_scale(const schedules::Simulation& simulation) {
  const std::vector<BoxRow> rows = rows_of(simulation);
  const double shortest = shortest_box(rows, simulation.makespan);
  if (shortest <= 0) return {};
  for (int division = 1; division <= kDivisionsMax; ++division) {
    const double unit = shortest / division;
    if (simulation.makespan / unit > kColumnsMax) break;
    if (falls_on_edges(rows, unit)) return {unit, true};
  }
  return {std::max(shortest, simulation.makespan / kColumnsMax), false};
}

std::string schedule_grid(const schedules::Program& program,
                          const schedules::Simulation& simulation, const GridOptions& options) {
  const double unit = grid_scale(simulation).unit;
  const auto columns = static_cast<std::size_t>(std::lround(simulation.makespan / unit));
  const std::vector<BoxRow> rows = rows_of(simulation);
  std::vector<CellRow> cells;
  for (const BoxRow& row : rows) cells.push_back(cells_of(row, columns, unit));
  const GridWriter writer(program, std::move(cells), options.colour);
  if (options.characters_max == 0) return writer.band(0, columns);
  const std::size_t step = writer.columns_in(options.characters_max);
  if (step >= columns) return writer.band(0, columns);
  std::string text;
  for (std::size_t begin = 0; begin < columns; begin += step) {
    const std::size_t end = std::min(begin + step, columns);
    text += (begin == 0 ? "columns " : "\ncolumns ") + std::to_string(begin) + " to " +
            std::to_string(end - 1) + "\n" + writer.band(begin, end);
  }
  return text;
}

}  // namespace headrace::cli
