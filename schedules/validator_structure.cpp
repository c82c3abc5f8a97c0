// Exactly once, in place, and in order within a rank.
#include "schedules/detail/validator_parts.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace headrace::schedules::detail {
namespace {

std::string at_text(const GridCell& cell) {
  return "rank " + std::to_string(cell.rank.value) + " column " + std::to_string(cell.column);
}

// Why `action` may not stand on `rank`, or an empty text. Step-end kinds have no microbatch.
std::string misfit(const Program& program, const Action& action, Rank rank) {
  if (action.stage.value < 0 || action.stage.value >= program.stages)
    return "names a stage outside 0.." + std::to_string(program.stages - 1);
  if (action.microbatch.value < 0 || action.microbatch.value >= program.microbatches)
    return "names a microbatch outside 0.." + std::to_string(program.microbatches - 1);
  if (is_step_end(action.kind)) return {};  // check_step_end knows where these belong
  const Rank home = program.rank_of(action.stage, action.microbatch);
  if (home != rank) return "belongs to rank " + std::to_string(home.value);
  return {};
}

class ComputeCheck {
 public:
  ComputeCheck(const Program& program, const CellIndex& index, Findings* findings)
      : program_(program), index_(index), findings_(*findings) {}

  void run() {
    for (std::int32_t s = 0; s < program_.stages; ++s)
      for (std::int32_t m = 0; m < program_.microbatches; ++m)
        check_cell(StageIndex{s}, MicrobatchIndex{m});
  }

 private:
  void check_cell(StageIndex stage, MicrobatchIndex m) {
    const std::int32_t f = index_.column(ActionKind::kForward, stage, m);
    const std::int32_t b = index_.column(ActionKind::kBackward, stage, m);
    const std::int32_t i = index_.column(ActionKind::kBackwardInput, stage, m);
    const std::int32_t w = index_.column(ActionKind::kBackwardWeight, stage, m);
    constexpr std::int32_t kAbsent = CellIndex::kAbsent;
    if (f == kAbsent) missing(ActionKind::kForward, stage, m, "");
    if (program_.forward_only) {
      forbid_backward(stage, m);
      return;
    }
    if (b != kAbsent && i != kAbsent) both(ActionKind::kBackwardInput, i, stage, m);
    if (b != kAbsent && w != kAbsent) both(ActionKind::kBackwardWeight, w, stage, m);
    if (b == kAbsent && i == kAbsent && w == kAbsent)
      missing(ActionKind::kBackward, stage, m, " (or its halves I and W)");
    if (b == kAbsent && i == kAbsent && w != kAbsent)
      missing(ActionKind::kBackwardInput, stage, m, "");
    if (b == kAbsent && i != kAbsent && w == kAbsent)
      missing(ActionKind::kBackwardWeight, stage, m, "");
    check_before(ActionKind::kForward, ActionKind::kBackward, stage, m);
    check_before(ActionKind::kForward, ActionKind::kBackwardInput, stage, m);
    check_before(ActionKind::kBackwardInput, ActionKind::kBackwardWeight, stage, m);
  }

  [[nodiscard]] GridCell cell(ActionKind kind, StageIndex stage, MicrobatchIndex m) const {
    return {program_.rank_of(stage, m), index_.column(kind, stage, m)};
  }

  void missing(ActionKind kind, StageIndex stage, MicrobatchIndex m, const std::string& note) {
    if (!findings_.wants_more()) return findings_.add_untold();
    findings_.add_to_row(to_string(Action{kind, stage, m}) + note + " is missing on rank " +
                             std::to_string(program_.rank_of(stage, m).value),
                         program_.rank_of(stage, m));
  }

  void both(ActionKind half, std::int32_t column, StageIndex stage, MicrobatchIndex m) {
    if (!findings_.wants_more()) return findings_.add_untold();
    const GridCell full = cell(ActionKind::kBackward, stage, m);
    findings_.add(to_string(Action{ActionKind::kBackward, stage, m}) + " at " + at_text(full) +
                      " already does what " + to_string(Action{half, stage, m}) + " at column " +
                      std::to_string(column) + " does",
                  {full, {full.rank, column}});
  }

  void forbid_backward(StageIndex stage, MicrobatchIndex m) {
    for (ActionKind kind :
         {ActionKind::kBackward, ActionKind::kBackwardInput, ActionKind::kBackwardWeight}) {
      if (!index_.has(kind, stage, m)) continue;
      if (!findings_.wants_more()) {
        findings_.add_untold();
        continue;
      }
      const GridCell where = cell(kind, stage, m);
      findings_.add(to_string(Action{kind, stage, m}) + " at " + at_text(where) +
                        " has no place in a forward-only program",
                    {where});
    }
  }

  void check_before(ActionKind first, ActionKind second, StageIndex stage, MicrobatchIndex m) {
    const GridCell before = cell(first, stage, m);
    const GridCell after = cell(second, stage, m);
    if (before.column == CellIndex::kAbsent || after.column == CellIndex::kAbsent) return;
    if (before.column < after.column) return;
    if (!findings_.wants_more()) return findings_.add_untold();
    findings_.add(to_string(Action{second, stage, m}) + " at " + at_text(after) +
                      " stands before " + to_string(Action{first, stage, m}) + " at column " +
                      std::to_string(before.column),
                  {after, before});
  }

  const Program& program_;
  const CellIndex& index_;
  Findings& findings_;
};

// Empty when the table of a kTable placement has V stages on every rank.
std::string misfit_table(const Program& program) {
  if (program.stage_ranks.size() != static_cast<std::size_t>(program.stages))
    return "the table of stages has " + std::to_string(program.stage_ranks.size()) +
           " entries, one per stage is needed";
  std::vector<std::int32_t> held(static_cast<std::size_t>(program.ranks), 0);
  for (std::size_t s = 0; s < program.stage_ranks.size(); ++s) {
    const std::int32_t rank = program.stage_ranks[s].value;
    if (rank < 0 || rank >= program.ranks)
      return "stage " + std::to_string(s) + " is placed on rank " + std::to_string(rank) +
             ", ranks are 0.." + std::to_string(program.ranks - 1);
    ++held[Rank{rank}.index()];
  }
  for (std::size_t r = 0; r < held.size(); ++r)
    if (held[r] != program.chunks)
      return "rank " + std::to_string(r) + " holds " + std::to_string(held[r]) +
             " stages, every rank must hold V=" + std::to_string(program.chunks);
  return {};
}

std::string misfit_shape(const Program& program) {
  if (program.ranks < 1 || program.chunks < 1 || program.microbatches < 1)
    return "P, V and M must each be at least 1";
  const bool is_bidirectional = program.placement == Placement::kBidirectional;
  const std::int64_t stages =
      is_bidirectional ? program.ranks : std::int64_t{program.ranks} * program.chunks;
  if (program.stages != stages)
    return "this placement needs S=" + std::to_string(stages) + " stages";
  if (is_bidirectional && program.ranks % 2 != 0)
    return "P is odd, so that the rank in the middle would hold both replicas of stage " +
           std::to_string(program.ranks / 2);
  if (stages * program.microbatches > kCellsMax)
    return "S x M must be at most " + std::to_string(kCellsMax);
  if (program.actions.size() != static_cast<std::size_t>(program.ranks))
    return "it has " + std::to_string(program.actions.size()) +
           " lists of actions, one per rank is needed";
  return program.placement == Placement::kTable ? misfit_table(program) : std::string{};
}

// Why the forward at `at` cannot be the first half of a pair, or an empty text.
std::string misfit_pair(const std::vector<Action>& list, std::size_t at) {
  if (list[at].kind != ActionKind::kForward) return "is no forward, only a forward begins a pair";
  if (at + 1 == list.size()) return "begins a pair, but nothing follows";
  const Action& second = list[at + 1];
  if (second.kind != ActionKind::kBackward && second.kind != ActionKind::kBackwardInput)
    return "begins a pair, but " + to_string(second) + " behind it is no B or I";
  if (second.microbatch == list[at].microbatch)
    return "begins a pair with " + to_string(second) + ", which depends on it";
  return {};
}

}  // namespace

void check_shape(const Program& program, Findings* findings) {
  const std::string why = misfit_shape(program);
  if (!why.empty()) findings->add(why, {});
}

void check_cells(const Program& program, CellIndex* index, Findings* findings) {
  for (std::int32_t r = 0; r < program.ranks; ++r) {
    std::int32_t column = -1;
    for (const Action& action : program.actions[Rank{r}.index()]) {
      const GridCell here{Rank{r}, ++column};
      std::string why = misfit(program, action, Rank{r});
      if (why.empty() && is_step_end(action.kind)) {
        index->note_step_end();
        continue;
      }
      std::vector<GridCell> cells{here};
      if (why.empty()) {
        const std::int32_t before = index->column(action.kind, action.stage, action.microbatch);
        if (before == CellIndex::kAbsent) {
          index->set(action, column);
          continue;
        }
        why = "stands twice, first at column " + std::to_string(before);
        cells.push_back({Rank{r}, before});
      }
      if (findings->wants_more())
        findings->add(to_string(action) + " at " + at_text(here) + " " + why, cells);
      else
        findings->add_untold();
    }
  }
}

void check_pairs(const Program& program, Findings* findings) {
  for (std::int32_t r = 0; r < program.ranks; ++r) {
    const std::vector<Action>& list = program.actions[Rank{r}.index()];
    for (std::size_t at = 0; at < list.size(); ++at) {
      if (!list[at].overlaps_next) continue;
      const std::string why = misfit_pair(list, at);
      if (why.empty()) continue;
      const GridCell here{Rank{r}, static_cast<std::int32_t>(at)};
      if (findings->wants_more())
        findings->add(to_string(list[at]) + " at " + at_text(here) + " " + why, {here});
      else
        findings->add_untold();
    }
  }
}

void check_compute(const Program& program, const CellIndex& index, Findings* findings) {
  ComputeCheck(program, index, findings).run();
}

}  // namespace headrace::schedules::detail
