#include "schedules/detail/cell_index.hpp"

#include <algorithm>
#include <cstddef>
#include <set>

namespace headrace::schedules::detail {
namespace {

constexpr std::int32_t kWholeColumnsMax = 16;  // shorter programs are drawn whole
constexpr std::int32_t kWholeRanksMax = 8;
constexpr std::int32_t kColumnsAround = 4;
constexpr std::size_t kRowsMax = 8;

std::set<std::int32_t> rows_to_draw(const Program& program, const std::vector<GridCell>& bad) {
  std::set<std::int32_t> rows;
  if (program.ranks <= kWholeRanksMax)
    for (std::int32_t r = 0; r < program.ranks; ++r) rows.insert(r);
  for (const GridCell& cell : bad)
    if (rows.size() < kRowsMax) rows.insert(cell.rank.value);
  return rows;
}

bool is_bad(const std::vector<GridCell>& bad, std::int32_t rank, std::int32_t column) {
  return std::any_of(bad.begin(), bad.end(), [&](const GridCell& cell) {
    return cell.rank.value == rank && cell.column == column;
  });
}

// The column a row is centred on: its own first bad cell, else the first bad cell at all.
std::int32_t centre_of(const std::vector<GridCell>& bad, std::int32_t rank) {
  for (const GridCell& cell : bad)
    if (cell.rank.value == rank) return cell.column;
  return bad.front().column;
}

}  // namespace

std::string draw_cells(const Program& program, const std::vector<GridCell>& bad) {
  std::string out;
  if (bad.empty()) return out;
  for (std::int32_t rank : rows_to_draw(program, bad)) {
    const std::vector<Action>& list = program.actions[Rank{rank}.index()];
    const auto size = static_cast<std::int32_t>(list.size());
    std::int32_t begin = 0;
    std::int32_t end = size;
    if (size > kWholeColumnsMax) {
      begin = std::clamp(centre_of(bad, rank) - kColumnsAround, 0, size);
      end = std::min(size, begin + 2 * kColumnsAround + 1);
    }
    out += "\n  rank " + std::to_string(rank) + ", from column " + std::to_string(begin) + ":";
    if (begin > 0) out += " ..";
    for (std::int32_t column = begin; column < end; ++column) {
      const std::string text = to_string(list[static_cast<std::size_t>(column)]);
      out += is_bad(bad, rank, column) ? " >" + text + "<" : " " + text;
    }
    if (end < size) out += " ..";
  }
  return out;
}

void Findings::add(const std::string& text, const std::vector<GridCell>& cells) {
  const GridCell at = cells.empty() ? GridCell{Rank{-1}, -1} : cells.front();
  told_.push_back({at.rank, at.column, text});
  cells_.insert(cells_.end(), cells.begin(), cells.end());
}

void Findings::add_to_row(const std::string& text, Rank rank) { told_.push_back({rank, -1, text}); }

Status Findings::status(const Program& program) const {
  if (told_.empty()) return Status::ok();
  std::string text = "schedule " + program.schedule + " (P=" + std::to_string(program.ranks) +
                     ", M=" + std::to_string(program.microbatches) +
                     ", V=" + std::to_string(program.chunks) +
                     ", S=" + std::to_string(program.stages) + ") cannot run: ";
  for (const Finding& finding : told_)
    text += (&finding == told_.data() ? "" : "; ") + finding.text;
  if (untold_ > 0) text += "; and " + std::to_string(untold_) + " more";
  return {StatusCode::kConfig, text + draw_cells(program, cells_)};
}

void CellIndex::set(const Action& action, std::int32_t column) {
  std::vector<std::int32_t>& columns = columns_[static_cast<std::size_t>(action.kind)];
  if (columns.empty())
    columns.assign(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(microbatches_),
                   kAbsent);
  columns[at(action.stage, action.microbatch)] = column;
  has_transfers_ = has_transfers_ || is_transfer(action.kind);
}

}  // namespace headrace::schedules::detail
