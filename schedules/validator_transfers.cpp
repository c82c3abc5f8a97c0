// Sends and receives: each crossing has both, nothing else has any, and every link delivers in
// order.
#include "schedules/detail/validator_parts.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace headrace::schedules::detail {
namespace {

constexpr std::int32_t kAbsent = CellIndex::kAbsent;

class TransferCheck {
 public:
  TransferCheck(const Program& program, const CellIndex& index, Findings* findings)
      : program_(program), index_(index), findings_(*findings) {}

  void run() {
    for (std::int32_t s = 0; s < program_.stages; ++s)
      for (std::int32_t m = 0; m < program_.microbatches; ++m)
        check_cell(StageIndex{s}, MicrobatchIndex{m});
  }

 private:
  void check_cell(StageIndex stage, MicrobatchIndex m) {
    const StageIndex below{stage.value - 1};
    const StageIndex above{stage.value + 1};
    check(ActionKind::kSendForward, stage, m, above, ActionKind::kRecvForward, stage);
    check(ActionKind::kRecvForward, stage, m, below, ActionKind::kSendForward, below);
    check(ActionKind::kSendBackward, stage, m, below, ActionKind::kRecvBackward, below);
    check(ActionKind::kRecvBackward, stage, m, above, ActionKind::kSendBackward, stage);
  }

  // `lower` is the lower stage of the boundary between `stage` and `peer`.
  void check(ActionKind kind, StageIndex stage, MicrobatchIndex m, StageIndex peer,
             ActionKind partner, StageIndex lower) {
    const Action action{kind, stage, m};
    const std::int32_t column = index_.column(kind, stage, m);
    const bool is_gradient = kind == ActionKind::kSendBackward || kind == ActionKind::kRecvBackward;
    const bool is_needed =
        crosses_ranks(program_, lower, m) && !(is_gradient && program_.forward_only);
    if (is_needed && column == kAbsent) return refuse_missing(action, partner, peer);
    if (column == kAbsent) return;
    if (!is_needed) return refuse_needless(action, peer, column);
    const bool is_receive = kind == ActionKind::kRecvForward || kind == ActionKind::kRecvBackward;
    const std::int32_t compute = is_gradient ? index_.gradient_column(stage, m)
                                             : index_.column(ActionKind::kForward, stage, m);
    if (is_receive ? column > compute : column < compute)
      refuse(to_string(action) + " must stand " +
                 (is_receive ? "before the action that uses it" : "after the action that makes it"),
             {{program_.rank_of(stage, m), column}, {program_.rank_of(stage, m), compute}});
  }

  void refuse(const std::string& text, const std::vector<GridCell>& cells) {
    if (findings_.wants_more())
      findings_.add(text, cells);
    else
      findings_.add_untold();
  }

  void refuse_missing(const Action& action, ActionKind partner, StageIndex peer) {
    if (!findings_.wants_more()) return findings_.add_untold();
    const Rank rank = program_.rank_of(action.stage, action.microbatch);
    const std::int32_t other = index_.column(partner, peer, action.microbatch);
    std::vector<GridCell> cells;
    std::string text = to_string(action) + " is missing on rank " + std::to_string(rank.value);
    if (other != kAbsent) {
      text += ", " + to_string(Action{partner, peer, action.microbatch}) + " has no partner";
      cells.push_back({program_.rank_of(peer, action.microbatch), other});
    }
    cells.empty() ? findings_.add_to_row(text, rank) : findings_.add(text, cells);
  }

  void refuse_needless(const Action& action, StageIndex peer, std::int32_t column) {
    if (!findings_.wants_more()) return findings_.add_untold();
    const Rank rank = program_.rank_of(action.stage, action.microbatch);
    std::string why = "stages " + std::to_string(action.stage.value) + " and " +
                      std::to_string(peer.value) + " are on the same rank";
    if (peer.value < 0 || peer.value >= program_.stages)
      why = "there is no stage beyond " + std::to_string(action.stage.value);
    else if (program_.forward_only)
      why = "a forward-only program has no gradients";
    findings_.add(to_string(action) + " has nothing to move: " + why, {{rank, column}});
  }

  const Program& program_;
  const CellIndex& index_;
  Findings& findings_;
};

// One end of a transfer, as it stands in a rank's list.
struct Transfer {
  bool is_send = false;
  bool is_gradient = false;
  StageIndex lower;  // the boundary between `lower` and the stage above
  MicrobatchIndex microbatch;
};

// Calls fn(transfer) for what `action` sends or receives. In a compute-only program a compute
// action stands for the receive before it and the send after it.
template <typename Function>
void for_each_transfer(const Program& program, bool is_lowered, const Action& action, Function fn) {
  const StageIndex stage = action.stage;
  const StageIndex below{stage.value - 1};
  const MicrobatchIndex m = action.microbatch;
  switch (action.kind) {
    case ActionKind::kSendForward:
      return fn(Transfer{true, false, stage, m});
    case ActionKind::kRecvForward:
      return fn(Transfer{false, false, below, m});
    case ActionKind::kSendBackward:
      return fn(Transfer{true, true, below, m});
    case ActionKind::kRecvBackward:
      return fn(Transfer{false, true, stage, m});
    case ActionKind::kForward:
      if (is_lowered) return;
      if (crosses_ranks(program, below, m)) fn(Transfer{false, false, below, m});
      if (crosses_ranks(program, stage, m)) fn(Transfer{true, false, stage, m});
      return;
    case ActionKind::kBackward:
    case ActionKind::kBackwardInput:
      if (is_lowered) return;
      if (crosses_ranks(program, stage, m)) fn(Transfer{false, true, stage, m});
      if (crosses_ranks(program, below, m)) fn(Transfer{true, true, below, m});
      return;
    default:
      return;
  }
}

// Counts per (peer, kind) of one rank; a rank has a handful of links, so a scan beats a map.
class LinkCounts {
 public:
  std::int32_t next(Rank peer, bool is_gradient) {
    for (Count& count : counts_)
      if (count.peer == peer && count.is_gradient == is_gradient) return count.value++;
    counts_.push_back({peer, is_gradient, 1});
    return 0;
  }

 private:
  struct Count {
    Rank peer;
    bool is_gradient;
    std::int32_t value;
  };
  std::vector<Count> counts_;
};

class LinkCheck {
 public:
  LinkCheck(const Program& program, bool is_lowered, Findings* findings)
      : program_(program), is_lowered_(is_lowered), findings_(*findings) {
    const std::size_t cells =
        static_cast<std::size_t>(program.stages) * static_cast<std::size_t>(program.microbatches);
    sent_[0].assign(cells, kAbsent);
    sent_[1].assign(cells, kAbsent);
  }

  void run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) visit(Rank{r}, true);
    for (std::int32_t r = 0; r < program_.ranks; ++r) visit(Rank{r}, false);
  }

 private:
  void visit(Rank rank, bool sends) {
    LinkCounts counts;
    std::int32_t column = -1;
    for (const Action& action : program_.actions[rank.index()]) {
      ++column;
      for_each_transfer(program_, is_lowered_, action, [&](const Transfer& transfer) {
        if (transfer.is_send != sends) return;
        const Rank peer = program_.rank_of(peer_stage(transfer), transfer.microbatch);
        const std::int32_t number = counts.next(peer, transfer.is_gradient);
        std::int32_t& sent = sent_[transfer.is_gradient ? 1 : 0][at(transfer)];
        if (sends)
          sent = number;
        else if (sent != number)
          refuse(action, {rank, column}, peer, transfer.is_gradient, sent, number);
      });
    }
  }

  static StageIndex peer_stage(const Transfer& transfer) {
    const bool peer_is_above = transfer.is_send != transfer.is_gradient;
    return StageIndex{transfer.lower.value + (peer_is_above ? 1 : 0)};
  }

  [[nodiscard]] std::size_t at(const Transfer& transfer) const {
    return transfer.lower.index() * static_cast<std::size_t>(program_.microbatches) +
           transfer.microbatch.index();
  }

  void refuse(const Action& action, const GridCell& cell, Rank from, bool is_gradient,
              std::int32_t sent, std::int32_t number) {
    if (!findings_.wants_more()) return findings_.add_untold();
    findings_.add("the " + std::string(is_gradient ? "gradient" : "activation") +
                      " link from rank " + std::to_string(from.value) + " to rank " +
                      std::to_string(cell.rank.value) + " is out of order: " + to_string(action) +
                      " takes message " + std::to_string(number) +
                      " but its data is sent as message " + std::to_string(sent),
                  {cell});
  }

  const Program& program_;
  bool is_lowered_;
  std::vector<std::int32_t> sent_[2];  // [gradient][boundary, microbatch]: number on its link
  Findings& findings_;
};

}  // namespace

void check_transfers(const Program& program, const CellIndex& index, Findings* findings) {
  if (index.has_transfers()) TransferCheck(program, index, findings).run();
}

void check_links(const Program& program, const CellIndex& index, Findings* findings) {
  LinkCheck(program, index.has_transfers(), findings).run();
}

}  // namespace headrace::schedules::detail
