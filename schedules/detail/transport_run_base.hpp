// What both kinds of transport run share.
//
// What it is for: transport_blocking.cpp and transport_queued.cpp. What it does not do: move a
// message. Thread rule: distinct objects are independent.
#pragma once

#include "schedules/detail/transport_runs.hpp"
#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::schedules::detail {

// "rank 1 and rank 3".
[[nodiscard]] std::string ranks_text(const std::vector<Rank>& ranks);

// Every transfer as a message, where each rank stands, what has been made, and the words for a
// stand-still.
class RunBase {
 public:
  RunBase(const Program& program, const std::vector<LoweredList>& lists)
      : program_(program), lists_(lists), step_(lists.size(), 0), is_awake_(lists.size(), false) {
    const auto count = 2 * static_cast<std::size_t>(program.stages) *
                       static_cast<std::size_t>(program.microbatches);
    send_at_.assign(count, kNowhere);
    receive_at_.assign(count, kNowhere);
    is_made_.assign(count, false);
    for (const LoweredList& list : lists) is_done_.emplace_back(list.actions.size(), false);
  }

 protected:
  static constexpr std::int32_t kNowhere = -1;

  struct Span {
    std::size_t begin;
    std::size_t end;
  };
  [[nodiscard]] const LoweredList& list(Rank rank) const { return lists_[rank.index()]; }
  [[nodiscard]] bool has_ended(Rank rank) const {
    return step_[rank.index()] == list(rank).ends.size();
  }
  [[nodiscard]] Span step(Rank rank) const {
    const std::size_t at = step_[rank.index()];
    const std::vector<std::int32_t>& ends = list(rank).ends;
    return {at == 0 ? 0 : static_cast<std::size_t>(ends[at - 1]),
            static_cast<std::size_t>(ends[at])};
  }
  [[nodiscard]] const Action& action(Rank rank, std::size_t at) const {
    return list(rank).actions[at];
  }
  [[nodiscard]] Message message(Rank rank, std::size_t at) const {
    return message_of(program_, action(rank, at));
  }
  [[nodiscard]] bool is_done(Rank rank, std::size_t at) const { return is_done_[rank.index()][at]; }
  void mark_done(Rank rank, std::size_t at) { is_done_[rank.index()][at] = true; }

  // Whether what a compute block needs from a stage of its own rank has been made before it; if so,
  // notes what the block makes.
  bool make(Rank rank, Span span) {
    for (std::size_t at = span.begin; at < span.end; ++at)
      if (lacks_local_input(action(rank, at))) return false;
    for (std::size_t at = span.begin; at < span.end; ++at) {
      const Action& made = action(rank, at);
      if (made.kind != ActionKind::kBackwardWeight)
        is_made_[made_at(made.stage.value, made.microbatch, made.kind == ActionKind::kForward)] =
            true;
    }
    return true;
  }
  [[nodiscard]] bool lacks_local_input(const Action& compute) const {
    if (compute.kind == ActionKind::kBackwardWeight) return false;
    const bool forward = compute.kind == ActionKind::kForward;
    const std::int32_t source = compute.stage.value + (forward ? -1 : 1);
    if (source < 0 || source >= program_.stages) return false;
    const StageIndex lower{std::min(source, compute.stage.value)};
    return !crosses_ranks(program_, lower, compute.microbatch) &&
           !is_made_[made_at(source, compute.microbatch, forward)];
  }

  void wake(Rank rank) {
    if (is_awake_[rank.index()]) return;
    is_awake_[rank.index()] = true;
    awake_.push_back(rank);
  }
  // Runs fn(rank) for every rank that is or gets awake.
  template <typename Function>
  void run_awake(Function fn) {
    for (std::int32_t r = 0; r < program_.ranks; ++r) wake(Rank{r});
    while (!awake_.empty()) {
      const Rank rank = awake_.back();
      awake_.pop_back();
      is_awake_[rank.index()] = false;
      fn(rank);
    }
  }

  // Where a rank stands still: its column, the words for it, and on whom it waits.
  struct Stop {
    std::size_t column = 0;
    std::string text;
    std::vector<Rank> on;
  };
  template <typename Function>  // Function(Rank) -> Stop
  void refuse(const std::vector<Rank>& stuck, Function stop_of, Verdict* verdict) const {
    verdict->deadlock = true;
    std::vector<std::vector<Rank>> waits_on(lists_.size());
    for (Rank rank : stuck) waits_on[rank.index()] = stop_of(rank).on;
    std::vector<Rank> told = smallest_cycle(waits_on);
    if (told.empty()) told.push_back(stuck.front());  // its peer has ended
    std::vector<GridCell> cells;
    std::string text;
    Program drawn;
    drawn.ranks = program_.ranks;
    for (const LoweredList& list : lists_) drawn.actions.push_back(list.actions);
    for (Rank rank : told) {
      const Stop stop = stop_of(rank);
      text += (text.empty() ? "" : "; ") + stop.text;
      cells.push_back({rank, static_cast<std::int32_t>(stop.column)});
    }
    verdict->text = text + draw_cells(drawn, cells);
  }

  // A compute block whose input is made later on its own rank.
  [[nodiscard]] Stop local_stop_of(Rank rank) const {
    Stop stop{step(rank).begin, {}, {rank}};
    while (!lacks_local_input(action(rank, stop.column))) ++stop.column;
    const Action& compute = action(rank, stop.column);
    const bool forward = compute.kind == ActionKind::kForward;
    stop.text = "rank " + std::to_string(rank.value) + " at " + to_string(compute) +
                " waits for the " + (forward ? "output" : "input gradient") + " of stage " +
                std::to_string(compute.stage.value + (forward ? -1 : 1)) +
                ", later in the same list";
    return stop;
  }

  // "0SEND_F1", or "0SEND_F1 and 2 more".
  [[nodiscard]] std::string open_text(Rank rank, const std::vector<std::size_t>& open) const {
    std::string text = to_string(action(rank, open.front()));
    if (open.size() > 1) text += " and " + std::to_string(open.size() - 1) + " more";
    return text;
  }
  // What `from` sent at `given`, `to` took at `taken` for something else.
  [[nodiscard]] std::string wrong_text(Rank from, std::size_t given, Rank to,
                                       std::size_t taken) const {
    return "rank " + std::to_string(to.value) + " takes for " + to_string(action(to, taken)) +
           " what rank " + std::to_string(from.value) + " sent with " +
           to_string(action(from, given));
  }
  [[nodiscard]] std::vector<Rank> peers_of(Rank rank, const std::vector<std::size_t>& open) const {
    std::vector<Rank> peers;
    for (std::size_t at : open) peers.push_back(message(rank, at).peer);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    return peers;
  }

  const Program& program_;
  const std::vector<LoweredList>& lists_;
  std::vector<std::size_t> step_;           // [rank]
  std::vector<std::int32_t> send_at_;       // [message] index in the sender's actions once posted
  std::vector<std::int32_t> receive_at_;    // [message] the same at the receiver
  std::vector<std::vector<bool>> is_done_;  // [rank][action]

 private:
  [[nodiscard]] std::size_t made_at(std::int32_t stage, MicrobatchIndex m, bool forward) const {
    const std::size_t cell =
        static_cast<std::size_t>(stage) * static_cast<std::size_t>(program_.microbatches) +
        m.index();
    return 2 * cell + (forward ? 0 : 1);
  }

  std::vector<bool> is_made_;  // [made_at] outputs and input gradients
  std::vector<Rank> awake_;
  std::vector<bool> is_awake_;
};

}  // namespace headrace::schedules::detail
