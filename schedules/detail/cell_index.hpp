// Where each action of a program stands, and how a refusal shows it.
//
// What it is for: the parts of the validator share one lookup (kind, stage, microbatch) -> column
// and one way to draw the offending cells. What it does not do: judge. Thread rule: distinct
// objects are independent; a const object may be shared.
#pragma once

#include "schedules/program.hpp"
#include "schedules/validator.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::schedules::detail {

// More cells than this (stages x microbatches) are refused: a typing error is likelier than a plan,
// and positions must fit 32 bits. Used by the registry and by the validator.
inline constexpr std::int64_t kCellsMax = 10'000'000;

// A place in the grid: row = rank, column = position in the rank's list, both from 0.
struct GridCell {
  Rank rank;
  std::int32_t column = 0;
};

// The rows around `bad`, at most about a screen, with the bad cells marked as >1F0<.
[[nodiscard]] std::string draw_cells(const Program& program, const std::vector<GridCell>& bad);

// Findings in words up to a limit, the number of the rest, and one grid for all that were told.
class Findings {
 public:
  explicit Findings(std::size_t told_max) : told_max_(told_max) {}

  [[nodiscard]] bool empty() const { return told_.empty(); }
  [[nodiscard]] bool wants_more() const { return told_.size() < told_max_; }
  // The finding belongs to the first cell, or without one to the whole program.
  void add(const std::string& text, const std::vector<GridCell>& cells);
  // It belongs to a whole row.
  void add_to_row(const std::string& text, Rank rank);
  void add_untold() { ++untold_; }
  [[nodiscard]] std::int64_t untold() const { return untold_; }
  [[nodiscard]] const std::vector<Finding>& told() const { return told_; }
  // Ok when nothing was added, else kConfig.
  [[nodiscard]] Status status(const Program& program) const;

 private:
  std::size_t told_max_;
  std::vector<Finding> told_;
  std::int64_t untold_ = 0;
  std::vector<GridCell> cells_;
};

class CellIndex {
 public:
  static constexpr std::int32_t kAbsent = -1;

  // @pre stages x microbatches is within kCellsMax.
  explicit CellIndex(const Program& program)
      : stages_(program.stages), microbatches_(program.microbatches) {}

  // Column in the list of rank_of(stage, microbatch), or kAbsent. Compute and transfer kinds only.
  [[nodiscard]] std::int32_t column(ActionKind kind, StageIndex stage, MicrobatchIndex m) const {
    const std::vector<std::int32_t>& columns = columns_[static_cast<std::size_t>(kind)];
    return columns.empty() ? kAbsent : columns[at(stage, m)];
  }
  [[nodiscard]] bool has(ActionKind kind, StageIndex stage, MicrobatchIndex m) const {
    return column(kind, stage, m) != kAbsent;
  }
  // Column of the action that makes the input gradient: B, else I, else kAbsent.
  [[nodiscard]] std::int32_t gradient_column(StageIndex stage, MicrobatchIndex m) const {
    const std::int32_t full = column(ActionKind::kBackward, stage, m);
    return full != kAbsent ? full : column(ActionKind::kBackwardInput, stage, m);
  }
  void set(const Action& action, std::int32_t column);

  [[nodiscard]] bool has_transfers() const { return has_transfers_; }
  [[nodiscard]] bool has_step_end() const { return has_step_end_; }
  void note_step_end() { has_step_end_ = true; }

 private:
  [[nodiscard]] std::size_t at(StageIndex stage, MicrobatchIndex m) const {
    return stage.index() * static_cast<std::size_t>(microbatches_) + m.index();
  }

  std::int32_t stages_;
  std::int32_t microbatches_;
  bool has_transfers_ = false;
  bool has_step_end_ = false;
  std::array<std::vector<std::int32_t>, 8> columns_;  // [kind], empty until its first action
};

}  // namespace headrace::schedules::detail
