// v_half and v_min (arXiv 2405.15362): two chunks per rank in V shape, with half and a third of
// 1f1b's activations.
//
// [Note: building blocks] The paper repeats a block of four slots per microbatch (F and I of both
// chunks) every six slots; their four residues modulo 6 differ, so blocks never collide, and W
// takes the two slots between. From that grid, in unit time: every action is pulled to the earliest
// free slot its inputs and the memory allow, which closes the gaps of warm-up and cool-down; then
// the order of F and I is kept and played anew, W filling each wait, first pending first. The order
// is a heuristic of ours in the manner of the paper's; its peak is the paper's, its length at most
// that of the reference in the tests.
#include "schedules/detail/generators.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <limits>

namespace headrace::schedules::detail {
namespace {

constexpr std::int32_t kPeriod = 6;
constexpr std::int32_t kFree = -1;

struct Block {
  std::array<std::int32_t, 4> slots;  // F of chunk 0, F of 1, I of 1, I of 0
};

Block v_min_block(std::int32_t ranks, std::int32_t rank) {
  const std::int32_t gap = ranks % 3 == 0 ? 2 : 0;
  return {{rank, 2 * ranks - 1 - rank, 2 * ranks + gap + rank, 4 * ranks + gap - 1 - rank}};
}

Block v_half_block(std::int32_t ranks, std::int32_t rank) {
  const std::int32_t gap = ranks % 2 == 0 ? 3 : 0;
  return {
      {2 * rank, 3 * ranks - 2 - rank, 3 * ranks + gap + 2 * rank - 1, 6 * ranks + gap - 2 - rank}};
}

// The actions of one rank in unit slots, and what it holds during each.
struct Row {
  std::vector<std::int32_t> at;    // [slot] index into actions, or kFree
  std::vector<std::int32_t> held;  // [slot] activations, the slot's own F included
  std::vector<Action> actions;
};

class SlotGrid {
 public:
  SlotGrid(const Program& program, std::int32_t limit, Block (*block)(std::int32_t, std::int32_t))
      : program_(program), limit_(limit), rows_(static_cast<std::size_t>(program.ranks)) {
    const std::size_t cells =
        static_cast<std::size_t>(program.stages) * static_cast<std::size_t>(program.microbatches);
    for (std::vector<std::int32_t>& slots : slots_) slots.assign(cells, 0);
    // The last block begins at 6(M-1), spans less than 6P+3 slots, and 2M of W follow at most.
    slots_end_ = 8 * program.microbatches + 6 * program.ranks + 8;
    for (std::int32_t rank = 0; rank < program.ranks; ++rank) place(Rank{rank}, block);
  }

  void pull() {
    for (std::int32_t slot = 0; slot < slots_end_; ++slot)
      for (Row& row : rows_)
        if (row.at[static_cast<std::size_t>(slot)] != kFree) pull_one(&row, slot);
  }

  // F and I of a rank in ascending slots.
  [[nodiscard]] std::vector<Action> order_of(Rank rank) const {
    const Row& row = rows_[rank.index()];
    std::vector<Action> order;
    for (std::int32_t action : row.at) {
      if (action == kFree) continue;
      const Action& it = row.actions[static_cast<std::size_t>(action)];
      if (it.kind != ActionKind::kBackwardWeight) order.push_back(it);
    }
    return order;
  }

 private:
  static std::size_t row_of(ActionKind kind) {
    return kind == ActionKind::kForward ? 0 : kind == ActionKind::kBackwardInput ? 1 : 2;
  }
  [[nodiscard]] std::int32_t& slot(ActionKind kind, StageIndex stage, MicrobatchIndex m) {
    return slots_[row_of(kind)]
                 [stage.index() * static_cast<std::size_t>(program_.microbatches) + m.index()];
  }

  void put(Row* row, std::int32_t at, const Action& action) {
    row->at[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(row->actions.size());
    row->actions.push_back(action);
    slot(action.kind, action.stage, action.microbatch) = at;
  }

  void place(Rank rank, Block (*block)(std::int32_t, std::int32_t)) {
    Row& row = rows_[rank.index()];
    row.at.assign(static_cast<std::size_t>(slots_end_), kFree);
    row.held.assign(static_cast<std::size_t>(slots_end_), 0);
    const std::array<std::int32_t, 4> slots = block(program_.ranks, rank.value).slots;
    const std::int32_t outer = rank.value;
    const std::int32_t inner = 2 * program_.ranks - 1 - rank.value;
    for (std::int32_t m = 0; m < program_.microbatches; ++m) {
      const std::int32_t base = kPeriod * m;
      put(&row, base + slots[0], make_action(ActionKind::kForward, outer, m));
      put(&row, base + slots[1], make_action(ActionKind::kForward, inner, m));
      put(&row, base + slots[2], make_action(ActionKind::kBackwardInput, inner, m));
      put(&row, base + slots[3], make_action(ActionKind::kBackwardInput, outer, m));
    }
    place_weights(&row);
    count(&row);
  }

  void place_weights(Row* row) {
    std::deque<Action> pending;
    for (std::int32_t at = 0; at < slots_end_; ++at) {
      const std::int32_t action = row->at[static_cast<std::size_t>(at)];
      if (action != kFree) {
        const Action& it = row->actions[static_cast<std::size_t>(action)];
        if (it.kind == ActionKind::kBackwardInput)
          pending.push_back({ActionKind::kBackwardWeight, it.stage, it.microbatch});
      } else if (!pending.empty()) {
        put(row, at, pending.front());
        pending.pop_front();
      }
    }
    HEADRACE_CHECK(pending.empty(), "weights without a slot", pending.size());
  }

  static void count(Row* row) {
    std::int32_t held = 0;
    for (std::size_t at = 0; at < row->at.size(); ++at) {
      const ActionKind kind = row->at[at] == kFree
                                  ? ActionKind::kBackwardInput
                                  : row->actions[static_cast<std::size_t>(row->at[at])].kind;
      if (kind == ActionKind::kForward) ++held;
      row->held[at] = held;
      if (kind == ActionKind::kBackwardWeight) --held;
    }
  }

  // First slot after the action's inputs.
  [[nodiscard]] std::int32_t earliest(const Action& action) {
    const StageIndex below{action.stage.value - 1};
    const StageIndex above{action.stage.value + 1};
    const MicrobatchIndex m = action.microbatch;
    if (action.kind == ActionKind::kForward)
      return below.value < 0 ? 0 : slot(ActionKind::kForward, below, m) + 1;
    if (action.kind == ActionKind::kBackwardWeight)
      return slot(ActionKind::kBackwardInput, action.stage, m) + 1;
    const std::int32_t own = slot(ActionKind::kForward, action.stage, m) + 1;
    if (above.value == program_.stages) return own;
    return std::max(own, slot(ActionKind::kBackwardInput, above, m) + 1);
  }

  void pull_one(Row* row, std::int32_t from) {
    const std::int32_t index = row->at[static_cast<std::size_t>(from)];
    const Action& action = row->actions[static_cast<std::size_t>(index)];
    const bool is_forward = action.kind == ActionKind::kForward;
    std::int32_t to = from;
    for (std::int32_t at = from - 1; at >= earliest(action); --at) {
      if (is_forward && row->held[static_cast<std::size_t>(at)] >= limit_) break;
      if (row->at[static_cast<std::size_t>(at)] == kFree) to = at;
    }
    if (to == from) return;
    row->at[static_cast<std::size_t>(from)] = kFree;
    row->at[static_cast<std::size_t>(to)] = index;
    slot(action.kind, action.stage, action.microbatch) = to;
    if (is_forward)
      for (std::int32_t at = to; at < from; ++at) ++row->held[static_cast<std::size_t>(at)];
    if (action.kind == ActionKind::kBackwardWeight)
      for (std::int32_t at = to + 1; at <= from; ++at) --row->held[static_cast<std::size_t>(at)];
  }

  const Program& program_;
  std::int32_t limit_;
  std::int32_t slots_end_ = 0;
  std::vector<Row> rows_;                           // [rank]
  std::array<std::vector<std::int32_t>, 3> slots_;  // [F, I, W][stage, microbatch]
};

// Plays the order of F and I in unit time; W fills every slot in which the next one cannot run.
class UnitPlay {
 public:
  UnitPlay(Program* program, const SlotGrid& grid, std::int32_t limit)
      : program_(*program), limit_(limit), ranks_(static_cast<std::size_t>(program->ranks)) {
    const std::size_t cells =
        static_cast<std::size_t>(program->stages) * static_cast<std::size_t>(program->microbatches);
    forward_done_.assign(cells, kNever);
    gradient_done_.assign(cells, kNever);
    for (std::int32_t r = 0; r < program->ranks; ++r)
      ranks_[Rank{r}.index()].order = grid.order_of(Rank{r});
  }

  void run() {
    for (std::int32_t now = 0; left_ranks() > 0; ++now) {
      for (std::size_t r = 0; r < ranks_.size(); ++r) play(now, &ranks_[r], &program_.actions[r]);
      HEADRACE_CHECK(now < 100 * (program_.ranks + program_.microbatches), "no end in sight");
    }
  }

 private:
  static constexpr std::int32_t kNever = std::numeric_limits<std::int32_t>::max();
  struct PlayedRank {
    std::vector<Action> order;
    std::size_t next = 0;
    std::int32_t held = 0;
    std::deque<Action> pending;
  };

  [[nodiscard]] std::int64_t left_ranks() const {
    return std::count_if(ranks_.begin(), ranks_.end(), [](const PlayedRank& rank) {
      return rank.next < rank.order.size() || !rank.pending.empty();
    });
  }
  [[nodiscard]] std::size_t at(StageIndex stage, MicrobatchIndex m) const {
    return stage.index() * static_cast<std::size_t>(program_.microbatches) + m.index();
  }

  [[nodiscard]] bool is_ready(const Action& action, std::int32_t now, std::int32_t held) const {
    const StageIndex below{action.stage.value - 1};
    const StageIndex above{action.stage.value + 1};
    if (action.kind == ActionKind::kForward)
      return held < limit_ &&
             (below.value < 0 || forward_done_[at(below, action.microbatch)] <= now);
    return forward_done_[at(action.stage, action.microbatch)] <= now &&
           (above.value == program_.stages || gradient_done_[at(above, action.microbatch)] <= now);
  }

  void play(std::int32_t now, PlayedRank* rank, std::vector<Action>* list) {
    if (rank->next < rank->order.size() && is_ready(rank->order[rank->next], now, rank->held)) {
      const Action& action = rank->order[rank->next++];
      list->push_back(action);
      if (action.kind == ActionKind::kForward) {
        ++rank->held;
        forward_done_[at(action.stage, action.microbatch)] = now + 1;
      } else {
        gradient_done_[at(action.stage, action.microbatch)] = now + 1;
        rank->pending.push_back({ActionKind::kBackwardWeight, action.stage, action.microbatch});
      }
    } else if (!rank->pending.empty()) {
      list->push_back(rank->pending.front());
      rank->pending.pop_front();
      --rank->held;
    }
  }

  Program& program_;
  std::int32_t limit_;
  std::vector<PlayedRank> ranks_;
  std::vector<std::int32_t> forward_done_;   // [stage, microbatch] first slot after it
  std::vector<std::int32_t> gradient_done_;  // [stage, microbatch]
};

Program from_blocks(const ScheduleSpec& spec, std::int32_t peak,
                    Block (*block)(std::int32_t, std::int32_t)) {
  Program program = empty_program(spec, Placement::kVShape);
  const std::int32_t limit = std::min(2 * spec.microbatches, peak);
  SlotGrid grid(program, limit, block);
  grid.pull();
  UnitPlay(&program, grid, limit).run();
  return program;
}

}  // namespace

Result<Program> make_v_half(const ScheduleSpec& spec) {
  return from_blocks(spec, 2 * ((spec.ranks + 2) / 2), v_half_block);
}

Result<Program> make_v_min(const ScheduleSpec& spec) {
  return from_blocks(spec, 2 * ((spec.ranks + 4) / 3), v_min_block);
}

}  // namespace headrace::schedules::detail
