#include "schedules/detail/csv_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace headrace::schedules::detail {
namespace {

using Key = std::pair<std::int32_t, std::int32_t>;  // stage, microbatch

Key key_of(const Action& action) { return {action.stage.value, action.microbatch.value}; }

std::string number(std::int64_t value) { return std::to_string(value); }

struct Place {
  std::int32_t rank = -1;
  std::int32_t cell = -1;
};

class Meaning {
 public:
  Meaning(WrittenGrid grid, const CsvOptions& options, CsvReading* reading)
      : grid_(std::move(grid)), options_(options), reading_(*reading) {}

  void find() {
    if (!check_rows() || !decide_era() || !check_form() || !find_shape()) return;
    collect();
    if (find_placement() && check_comms_present()) {
      add_notes();
      reading_.program = std::move(program_);
    } else {
      reading_.cells.clear();
    }
  }

 private:
  bool fault(Place place, std::string text) {
    reading_.faults.push_back({place.rank, place.cell, std::move(text)});
    return false;
  }

  // The first action that `wanted` accepts; fails a check if there is none.
  template <typename Predicate>
  std::pair<Place, const WrittenAction*> find_first(Predicate wanted) const {
    for (std::size_t r = 0; r < grid_.rows.size(); ++r)
      for (const WrittenAction& written : grid_.rows[r])
        if (wanted(written)) return {{static_cast<std::int32_t>(r), written.cell}, &written};
    return {{}, nullptr};
  }
  std::pair<Place, const WrittenAction*> first_of(ActionKind kind, bool is_bw = false) const {
    return find_first([&](const WrittenAction& written) {
      return written.action.kind == kind && written.is_bw == is_bw;
    });
  }
  std::vector<Key> keys_of(ActionKind kind) const {
    std::vector<Key> keys;
    for (const auto& row : grid_.rows)
      for (const WrittenAction& written : row)
        if (written.action.kind == kind) keys.push_back(key_of(written.action));
    std::sort(keys.begin(), keys.end());
    return keys;
  }

  bool check_rows() {
    const auto rows = static_cast<std::int64_t>(grid_.rows.size());
    if (options_.ranks == 0 || rows == options_.ranks) return true;
    return fault({}, "the file has " + number(rows) + " rows, one per rank, but the pipeline has " +
                         number(options_.ranks) + " ranks");
  }

  // [Note: letter eras] in csv.hpp.
  bool decide_era() {
    const auto [bw_place, bw] = first_of(ActionKind::kBackward, true);
    const auto [input_place, input] = first_of(ActionKind::kBackwardInput);
    if (bw != nullptr && input != nullptr)
      return fault(bw_place,
                   quoted_cell(to_old_text(*bw)) +
                       " is the full backward of PyTorch's old letters (B input gradient, BW full "
                       "backward), but " +
                       quoted_cell(to_string(input->action)) +
                       " elsewhere is of the current ones (I input gradient, B full backward); use "
                       "one of the two");
    if (bw != nullptr) {
      const auto [place, weight] = first_of(ActionKind::kBackwardWeight);
      if (weight != nullptr && first_of(ActionKind::kBackward).second == nullptr)
        return fault(place, quoted_cell(to_string(weight->action)) +
                                " has no B: in PyTorch's old letters, which BW in the file shows, "
                                "every W needs the input gradient B");
      is_old_ = true;
    } else if (input == nullptr && first_of(ActionKind::kBackwardWeight).second != nullptr &&
               first_of(ActionKind::kBackward).second != nullptr) {
      return decide_by_pairs();
    }
    return true;
  }

  // No I and no BW, but both B and W.
  bool decide_by_pairs() {
    const std::vector<Key> backwards = keys_of(ActionKind::kBackward);
    const std::vector<Key> weights = keys_of(ActionKind::kBackwardWeight);
    if (backwards == weights) return is_old_ = true;
    const auto is_alone = [](const std::vector<Key>& others, const WrittenAction& written) {
      return !std::binary_search(others.begin(), others.end(), key_of(written.action));
    };
    auto [place, alone] = find_first([&](const WrittenAction& written) {
      return (written.action.kind == ActionKind::kBackward && is_alone(weights, written)) ||
             (written.action.kind == ActionKind::kBackwardWeight && is_alone(backwards, written));
    });
    std::string which = "an action stands more than once";
    if (alone != nullptr) {
      const bool is_weight = alone->action.kind == ActionKind::kBackwardWeight;
      which = quoted_cell(to_string(alone->action)) + (is_weight ? " has no B" : " has no W");
    }
    return fault(place, which +
                            ", and the file has B and W without I: in PyTorch's old letters (B "
                            "input gradient, BW full backward) every B needs its W, in the "
                            "current ones (I input gradient, B full backward) every W needs an I");
  }

  static std::string to_old_text(const WrittenAction& written) {
    return number(written.action.stage.value) + "BW" + number(written.action.microbatch.value);
  }

  bool check_form() {
    std::int64_t transfers = 0;
    for (const auto& row : grid_.rows)
      transfers += std::count_if(row.begin(), row.end(), [](const WrittenAction& written) {
        return is_transfer(written.action.kind);
      });
    has_transfers_ = transfers > 0;
    if (!has_transfers_ || options_.form == CsvForm::kComputeComms) return true;
    const auto [place, first] =
        find_first([](const WrittenAction& written) { return is_transfer(written.action.kind); });
    return fault(place, quoted_cell(to_string(first->action)) + " is a transfer (its partner is " +
                            partner_text(first->action) + "), and " + number(transfers) +
                            (transfers == 1 ? " transfer stands" : " transfers stand") +
                            " in the file: a compute_only schedule is wanted, with F, B, I and W "
                            "alone, and this is compute_comms; leave the transfers out, they are "
                            "added again");
  }

  static std::string partner_text(const Action& action) {
    const bool is_upward =
        action.kind == ActionKind::kSendForward || action.kind == ActionKind::kRecvBackward;
    ActionKind kind = ActionKind::kSendForward;
    if (action.kind == ActionKind::kSendForward) kind = ActionKind::kRecvForward;
    if (action.kind == ActionKind::kSendBackward) kind = ActionKind::kRecvBackward;
    if (action.kind == ActionKind::kRecvBackward) kind = ActionKind::kSendBackward;
    if (!is_upward && action.stage.value == 0) return "missing: there is no stage below 0";
    const StageIndex stage{action.stage.value + (is_upward ? 1 : -1)};
    return to_string(Action{kind, stage, action.microbatch});
  }

  // Every number up to the largest must be used: a hole is a misspelling, and no memory is spent on
  // a number that stands in one cell only.
  bool check_dense(std::string_view noun, std::int32_t Key::*member, std::int32_t* count) {
    std::vector<std::int32_t> used;
    for (const auto& row : grid_.rows)
      for (const WrittenAction& written : row) {
        const Key key = key_of(written.action);
        used.push_back(key.*member);
      }
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    *count = used.back() + 1;
    if (static_cast<std::int64_t>(used.size()) == *count) return true;
    std::int32_t missing = 0;
    while (used[static_cast<std::size_t>(missing)] == missing) ++missing;
    const auto [place, action] = find_first([&](const WrittenAction& written) {
      const Key key = key_of(written.action);
      return key.*member == used.back();
    });
    return fault(place, quoted_cell(to_string(action->action)) + " is of " + std::string(noun) +
                            " " + number(used.back()) + ", but nothing in the file is of " +
                            std::string(noun) + " " + number(missing));
  }

  bool find_shape() {
    program_.schedule = options_.source;
    program_.ranks = static_cast<std::int32_t>(grid_.rows.size());
    if (!check_dense("stage", &Key::first, &program_.stages)) return false;
    if (!check_dense("microbatch", &Key::second, &program_.microbatches)) return false;
    const auto forwards = static_cast<std::int64_t>(keys_of(ActionKind::kForward).size());
    const std::int64_t wanted = std::int64_t{program_.stages} * program_.microbatches;
    if (wanted > 2 * forwards + 16)
      return fault({}, number(program_.stages) + " stages with " + number(program_.microbatches) +
                           " microbatches are " + number(wanted) +
                           " forwards, but the file holds " + number(forwards));
    if (program_.stages % program_.ranks != 0)
      return fault({}, number(program_.stages) + " stages do not fit " + number(program_.ranks) +
                           " ranks (rows): every rank holds the same number of stages");
    program_.chunks = program_.stages / program_.ranks;
    program_.forward_only = true;
    return true;
  }

  void collect() {
    for (const auto& row : grid_.rows) {
      std::vector<Action>& actions = program_.actions.emplace_back();
      std::vector<std::int32_t>& cells = reading_.cells.emplace_back();
      actions.reserve(row.size());
      cells.reserve(row.size());
      for (const WrittenAction& written : row) {
        Action action = written.action;
        if (is_old_ && !written.is_bw && action.kind == ActionKind::kBackward)
          action.kind = ActionKind::kBackwardInput;
        if (is_compute(action.kind) && action.kind != ActionKind::kForward)
          program_.forward_only = false;
        actions.push_back(action);
        cells.push_back(written.cell);
      }
    }
  }

  // Actions that do not stand where the placement says; the first of them in `place`.
  std::int64_t misplaced(Placement placement, Place* place) {
    program_.placement = placement;
    std::int64_t count = 0;
    for (std::int32_t r = 0; r < program_.ranks; ++r) {
      const std::vector<Action>& list = program_.actions[Rank{r}.index()];
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (program_.rank_of(list[i].stage, list[i].microbatch) == Rank{r}) continue;
        if (count++ == 0) *place = {r, reading_.cells[Rank{r}.index()][i]};
      }
    }
    return count;
  }

  // Where each stage stands first; false if some rank holds more stages than another.
  bool fill_table() {
    program_.stage_ranks.assign(StageIndex{program_.stages}.index(), Rank{-1});
    std::vector<std::int32_t> held(Rank{program_.ranks}.index(), 0);
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      for (const Action& action : program_.actions[Rank{r}.index()]) {
        Rank& rank = program_.stage_ranks[action.stage.index()];
        if (rank.value >= 0) continue;
        rank = Rank{r};
        ++held[rank.index()];
      }
    return std::all_of(held.begin(), held.end(),
                       [&](std::int32_t count) { return count == program_.chunks; });
  }

  // Half of an odd number of microbatches means two things to two readers.
  [[nodiscard]] bool may_be_bidirectional() const {
    return program_.chunks == 1 && program_.microbatches % 2 == 0;
  }

  bool find_placement() {
    Place place;
    for (const Placement placement : {Placement::kLoop, Placement::kVShape})
      if (misplaced(placement, &place) == 0) return true;
    if (may_be_bidirectional() && misplaced(Placement::kBidirectional, &place) == 0) return true;
    const bool is_even = fill_table();
    if (is_even && misplaced(Placement::kTable, &place) == 0) return true;
    return refuse_placement(is_even);
  }

  bool refuse_placement(bool is_even) {
    if (!is_even) {
      program_.placement = Placement::kTable;
      Place place;
      if (misplaced(Placement::kTable, &place) == 0)
        return fault({}, "the ranks hold unequal numbers of stages: " + held_text() +
                             "; every rank must hold " + number(program_.chunks));
    }
    // Name the action that is odd against the placement that fits most of them.
    Place best_place;
    std::int64_t best = -1;
    Placement best_placement = Placement::kLoop;
    for (const Placement placement :
         {Placement::kLoop, Placement::kVShape, Placement::kBidirectional, Placement::kTable}) {
      if (placement == Placement::kBidirectional && !may_be_bidirectional()) continue;
      if (placement == Placement::kTable && !is_even) continue;
      Place place;
      const std::int64_t count = misplaced(placement, &place);
      if (best >= 0 && count >= best) continue;
      best = count;
      best_place = place;
      best_placement = placement;
    }
    program_.placement = best_placement;
    return fault(best_place, misplaced_text(best_place));
  }

  std::string misplaced_text(Place place) const {
    const auto row = static_cast<std::size_t>(place.rank);
    const std::vector<std::int32_t>& cells = reading_.cells[row];
    const std::vector<Action>& list = program_.actions[row];
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Action& action = list[i];
      const Rank home = program_.rank_of(action.stage, action.microbatch);
      if (cells[i] != place.cell || home == Rank{place.rank}) continue;
      return quoted_cell(to_string(action)) + " stands on rank " + number(place.rank) +
             ", but the other actions place stage " + number(action.stage.value) +
             (program_.placement == Placement::kBidirectional
                  ? " for microbatch " + number(action.microbatch.value)
                  : std::string{}) +
             " on rank " + number(home.value) +
             ": a stage lives on one rank, or with P stages on rank s for the first half of the "
             "microbatches and on rank P-1-s for the second";
    }
    return "the actions fit no placement of stages on ranks";
  }

  std::string held_text() const {
    constexpr std::size_t kShownRanksMax = 16;
    std::vector<std::int32_t> held(Rank{program_.ranks}.index(), 0);
    for (const Rank& rank : program_.stage_ranks) ++held[rank.index()];
    std::string text;
    for (std::size_t r = 0; r < std::min(held.size(), kShownRanksMax); ++r)
      text += (r == 0 ? "" : ", ") + number(held[r]);
    return held.size() > kShownRanksMax ? text + ", ..." : text;
  }

  bool check_comms_present() {
    if (options_.form == CsvForm::kComputeOnly || has_transfers_) return true;
    for (std::int32_t s = 0; s + 1 < program_.stages; ++s) {
      const MicrobatchIndex first{0};
      const Rank below = program_.rank_of(StageIndex{s}, first);
      const Rank above = program_.rank_of(StageIndex{s + 1}, first);
      if (below == above) continue;
      return fault({}, "no transfer stands in the file, though stage " + number(s) +
                           " lives on rank " + number(below.value) + " and stage " + number(s + 1) +
                           " on rank " + number(above.value) +
                           ": a compute_comms schedule is wanted, with SEND and RECV, and this is "
                           "compute_only");
    }
    return true;
  }

  void add_notes() {
    if (program_.placement != Placement::kTable) program_.stage_ranks.clear();
    if (is_old_)
      reading_.notes.push_back(
          "the file is in PyTorch's old letters: B is read as the input gradient I, BW as the full "
          "backward B");
    if (grid_.idle_cells > 0)
      reading_.notes.push_back("idle (empty) cells are left out: " + number(grid_.idle_cells));
    if (grid_.sharding_cells > 0)
      reading_.notes.push_back(
          "UNSHARD, RESHARD and REDUCE_GRAD are left out, " + number(grid_.sharding_cells) +
          " in all, the first " + quoted_cell(grid_.first_sharding_cell) +
          ": parameters are not sharded, and gradients are reduced at the step's end");
    if (grid_.send_wait_cells > 0)
      reading_.notes.push_back("WAIT_SEND_F and WAIT_SEND_B are left out, " +
                               number(grid_.send_wait_cells) + " in all, the first " +
                               quoted_cell(grid_.first_send_wait_cell) +
                               ": a send here needs no wait of its own");
  }

  WrittenGrid grid_;
  const CsvOptions& options_;
  CsvReading& reading_;
  Program program_;
  bool is_old_ = false;
  bool has_transfers_ = false;
};

}  // namespace

void understand_grid(WrittenGrid grid, const CsvOptions& options, CsvReading* reading) {
  Meaning(std::move(grid), options, reading).find();
}

}  // namespace headrace::schedules::detail
