// The step's end: gradients are folded once their last weight gradient is in, the tied halves are
// exchanged, then NORM, COMMIT and OPTIMIZER close the rank's list.
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>

namespace headrace::schedules::detail {
namespace {

// What one rank's list says about its end.
struct RankEnd {
  std::map<StageIndex, std::int32_t> last_weight;  // column of the stage's last B or W
  std::map<Action, std::int32_t, bool (*)(const Action&, const Action&)>
      columns;                     // of step-end kinds
  std::int32_t last_other = -1;    // column of the last action before NORM's kind
  std::int32_t last_compute = -1;  // column
};

bool before(const Action& a, const Action& b) {
  return a.kind != b.kind ? a.kind < b.kind : a.stage < b.stage;
}

class StepEndCheck {
 public:
  StepEndCheck(const Program& program, Findings* findings)
      : program_(program), findings_(*findings) {}

  void run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) check_rank(Rank{r});
    if (tied_parts_ != 0 && tied_parts_ != 4)
      findings_.add("the tied exchange needs TIED_SEND and TIED_RECV at stage 0 and at stage " +
                        std::to_string(program_.stages - 1) + ", it has " +
                        std::to_string(tied_parts_) + " of the 4",
                    {});
  }

 private:
  void refuse(const std::string& text, Rank rank, const std::vector<std::int32_t>& columns) {
    if (!findings_.wants_more()) return findings_.add_untold();
    if (columns.empty()) return findings_.add_to_row(text, rank);
    std::vector<GridCell> cells;
    for (std::int32_t column : columns) cells.push_back({rank, column});
    findings_.add(text, cells);
  }

  RankEnd read(Rank rank) {
    RankEnd end{{}, decltype(RankEnd::columns)(before), -1, -1};
    std::int32_t column = -1;
    for (const Action& action : program_.actions[rank.index()]) {
      ++column;
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
        end.last_weight[action.stage] = column;
      if (is_compute(action.kind)) end.last_compute = column;
      if (action.kind < ActionKind::kNorm) end.last_other = column;
      if (!is_step_end(action.kind)) continue;
      const auto [at, is_new] = end.columns.try_emplace(action, column);
      if (!is_new)
        refuse(to_string(action) + " stands twice on rank " + std::to_string(rank.value), rank,
               {at->second, column});
    }
    return end;
  }

  void check_rank(Rank rank) {
    const RankEnd end = read(rank);
    check_reduce(rank, end);
    check_tied(rank, end);
    std::int32_t previous = end.last_other;
    for (ActionKind kind : {ActionKind::kNorm, ActionKind::kCommit, ActionKind::kOptimizer}) {
      const Action action{kind, StageIndex{0}, MicrobatchIndex{0}};
      const auto at = end.columns.find(action);
      if (at == end.columns.end()) {
        refuse(to_string(action) + " is missing on rank " + std::to_string(rank.value), rank, {});
        continue;
      }
      if (at->second < previous)
        refuse(to_string(action) + " on rank " + std::to_string(rank.value) +
                   " stands before what it needs: all other actions, then NORM, COMMIT, OPTIMIZER",
               rank, {at->second});
      previous = at->second;
    }
  }

  void check_reduce(Rank rank, const RankEnd& end) {
    const bool has_replicas = program_.placement == Placement::kBidirectional;
    for (const auto& [stage, column] : end.last_weight) {
      const Action reduce{ActionKind::kReduceGrad, stage, MicrobatchIndex{0}};
      const auto at = end.columns.find(reduce);
      if (at == end.columns.end())
        refuse(to_string(reduce) + " is missing on rank " + std::to_string(rank.value), rank, {});
      else if (at->second < column)
        refuse(to_string(reduce) + " on rank " + std::to_string(rank.value) +
                   " stands before the stage's last weight gradient",
               rank, {at->second, column});
      else if (has_replicas && at->second < end.last_compute)
        refuse(to_string(reduce) + " on rank " + std::to_string(rank.value) +
                   " waits for the stage's other replica and must stand after all F, B, I and W",
               rank, {at->second, end.last_compute});
    }
    for (const auto& [action, column] : end.columns)
      if (action.kind == ActionKind::kReduceGrad && !end.last_weight.contains(action.stage))
        refuse(to_string(action) + " stands on rank " + std::to_string(rank.value) +
                   ", which does not hold that stage",
               rank, {column});
  }

  void check_tied(Rank rank, const RankEnd& end) {
    for (const auto& [action, column] : end.columns) {
      if (action.kind != ActionKind::kTiedSend && action.kind != ActionKind::kTiedRecv) continue;
      ++tied_parts_;
      const bool is_end = action.stage.value == 0 || action.stage.value == program_.stages - 1;
      const bool is_held = end.last_weight.contains(action.stage);
      if (!is_end || !is_held || holds_both_ends(end))
        refuse(to_string(action) + " on rank " + std::to_string(rank.value) +
                   " is not at stage 0 or " + std::to_string(program_.stages - 1) +
                   " with the other end on another rank",
               rank, {column});
      const auto reduce =
          end.columns.find({ActionKind::kReduceGrad, action.stage, MicrobatchIndex{0}});
      if (reduce != end.columns.end() && column < reduce->second)
        refuse(to_string(action) + " on rank " + std::to_string(rank.value) +
                   " stands before the stage's REDUCE_GRAD",
               rank, {column, reduce->second});
    }
  }

  [[nodiscard]] bool holds_both_ends(const RankEnd& end) const {
    return end.last_weight.contains(StageIndex{0}) &&
           end.last_weight.contains(StageIndex{program_.stages - 1});
  }

  const Program& program_;
  std::int32_t tied_parts_ = 0;
  Findings& findings_;
};

}  // namespace

void check_step_end(const Program& program, const CellIndex& index, Findings* findings) {
  if (!index.has_step_end()) return;
  if (program.forward_only)
    return findings->add(
        "it is forward-only and has no gradients, but holds actions of a step's end; remove them",
        {});
  StepEndCheck(program, findings).run();
}

}  // namespace headrace::schedules::detail
