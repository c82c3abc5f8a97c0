// Transports where a rank goes on at once and transfers take place in the order of queues.
#include "schedules/detail/transport_run_base.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace headrace::schedules::detail {
namespace {

class QueuedRun : RunBase {
 public:
  QueuedRun(const Program& program, const std::vector<LoweredList>& lists, bool per_peer)
      : RunBase(program, lists), per_peer_(per_peer), queues_(lists.size()) {
    match_by_order();
  }

  Verdict run() {
    run_awake([&](Rank rank) { advance(rank); });
    Verdict verdict;
    verdict.wrong_message = !wrong_.empty();
    verdict.text = wrong_;
    std::vector<Rank> stuck;
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      if (!has_ended(Rank{r}) || has_queued(Rank{r})) stuck.push_back(Rank{r});
    if (!stuck.empty())
      refuse(
          stuck, [&](Rank rank) { return stop_of(rank); }, &verdict);
    return verdict;
  }

 private:
  // Transfers that were posted together and take place together.
  struct Group {
    std::vector<std::size_t> members;  // indices into the rank's actions
    std::size_t open = 0;
  };
  using Queue = std::deque<Group>;

  // Whom a message meets when only order counts.
  struct Partners {
    std::int64_t receive = kNowhere;  // the message whose receive takes this one's data
    std::int64_t send = kNowhere;     // the message whose data this one's receive takes
  };

  // Queues are in order, so the n-th send to a rank meets its n-th receive whatever the timing.
  void match_by_order() {
    struct Link {
      std::vector<std::int64_t> sent;
      std::vector<std::int64_t> received;
    };
    std::map<std::pair<Rank, Rank>, Link> links;
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      for (std::size_t at = 0; at < list(Rank{r}).actions.size(); ++at) {
        if (!is_transfer(action(Rank{r}, at).kind)) continue;
        const Message m = message(Rank{r}, at);
        if (m.is_send)
          links[{Rank{r}, m.peer}].sent.push_back(m.id);
        else
          links[{m.peer, Rank{r}}].received.push_back(m.id);
      }
    partners_.resize(send_at_.size());
    for (const auto& [ranks, link] : links)
      for (std::size_t i = 0; i < std::min(link.sent.size(), link.received.size()); ++i) {
        partners_[static_cast<std::size_t>(link.sent[i])].receive = link.received[i];
        partners_[static_cast<std::size_t>(link.received[i])].send = link.sent[i];
      }
  }

  void advance(Rank rank) {
    for (; !has_ended(rank); ++step_[rank.index()]) {
      const Span span = step(rank);
      if (is_transfer(action(rank, span.begin).kind)) {
        enqueue(rank, span);
      } else {
        Rank sender;
        for (std::size_t at = span.begin; at < span.end; ++at)
          if (awaits(rank, action(rank, at), &sender)) return;
        if (!make(rank, span)) return;
      }
    }
  }

  void enqueue(Rank rank, Span span) {
    std::map<Rank, Group> groups;
    for (std::size_t at = span.begin; at < span.end; ++at) {
      Group& group = groups[key_of(rank, at)];
      group.members.push_back(at);
      ++group.open;
    }
    for (auto& [key, group] : groups) {
      Queue& queue = queues_[rank.index()][key];
      queue.push_back(std::move(group));
      if (queue.size() == 1) heads_.push_back({rank, key});
    }
    while (!heads_.empty()) {
      const auto [who, key] = heads_.back();
      heads_.pop_back();
      start_head(who, key);
    }
  }

  [[nodiscard]] Rank key_of(Rank rank, std::size_t at) const {
    return per_peer_ ? message(rank, at).peer : Rank{0};
  }

  // What came to the head of its queue meets those heads that hold its other ends.
  void start_head(Rank rank, Rank key) {
    const std::vector<std::size_t> members = queues_[rank.index()][key].front().members;
    for (std::size_t at : members) {
      const Message m = message(rank, at);
      const auto id = static_cast<std::size_t>(m.id);
      (m.is_send ? send_at_ : receive_at_)[id] = static_cast<std::int32_t>(at);
      const std::int64_t met = m.is_send ? partners_[id].receive : partners_[id].send;
      if (met == kNowhere) continue;
      const std::int32_t other =
          (m.is_send ? receive_at_ : send_at_)[static_cast<std::size_t>(met)];
      if (other == kNowhere) continue;
      if (met != m.id) note_wrong(rank, at, static_cast<std::size_t>(other));
      end(m.peer, static_cast<std::size_t>(other));
      end(rank, at);
    }
  }

  void note_wrong(Rank rank, std::size_t at, std::size_t other) {
    if (!wrong_.empty()) return;
    const Message m = message(rank, at);
    wrong_ = m.is_send ? wrong_text(rank, at, m.peer, other) : wrong_text(m.peer, other, rank, at);
  }

  void end(Rank rank, std::size_t at) {
    mark_done(rank, at);
    const Rank key = key_of(rank, at);
    Queue& queue = queues_[rank.index()][key];
    wake(rank);  // a compute block may wait for this one alone
    if (--queue.front().open > 0) return;
    queue.pop_front();
    if (!queue.empty()) heads_.push_back({rank, key});
  }

  // The sender of what `compute` still waits for; false when it can run.
  [[nodiscard]] bool awaits(Rank rank, const Action& compute, Rank* sender) const {
    const bool forward = compute.kind == ActionKind::kForward;
    if (compute.kind == ActionKind::kBackwardWeight) return false;
    const StageIndex lower{compute.stage.value - (forward ? 1 : 0)};
    if (!crosses_ranks(program_, lower, compute.microbatch)) return false;
    const Message m =
        message_of(program_, {forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                              compute.stage, compute.microbatch});
    *sender = m.peer;
    const std::int32_t at = receive_at_[static_cast<std::size_t>(m.id)];
    return at == kNowhere || !is_done(rank, static_cast<std::size_t>(at));
  }

  [[nodiscard]] bool has_queued(Rank rank) const {
    const auto& queues = queues_[rank.index()];
    return std::any_of(queues.begin(), queues.end(),
                       [](const auto& entry) { return !entry.second.empty(); });
  }

  // The queues that keep the rank: the one its next receive is in, or all it has left.
  [[nodiscard]] Stop stop_of(Rank rank) const {
    Stop stop;
    const std::string who = "rank " + std::to_string(rank.value);
    Rank key{0};
    bool is_waiting = false;
    if (!has_ended(rank)) {
      const Span span = step(rank);
      for (std::size_t at = span.begin; at < span.end && !is_waiting; ++at)
        is_waiting = awaits(rank, action(rank, at), &key);
      if (!is_waiting) return local_stop_of(rank);
      stop.text = who + " at " + to_string(action(rank, span.begin)) + " waits";
      stop.column = span.begin;
      stop.on = {key};  // where the receive is not even queued
    } else {
      stop.text = who + " has transfers left";
    }
    for (const auto& [peer, queue] : queues_[rank.index()]) {
      if (queue.empty() || (is_waiting && per_peer_ && peer != key)) continue;
      std::vector<std::size_t> open;
      for (std::size_t at : queue.front().members)
        if (!is_done(rank, at)) open.push_back(at);
      stop.on = peers_of(rank, open);
      stop.column = open.front();
      stop.text += " behind " + open_text(rank, open) + ", which waits for " + ranks_text(stop.on);
      break;
    }
    return stop;
  }

  bool per_peer_;
  std::vector<std::map<Rank, Queue>> queues_;  // [rank], by peer or one at rank 0
  std::vector<Partners> partners_;             // [message]
  std::string wrong_;                          // the first wrong message in words
  std::vector<std::pair<Rank, Rank>> heads_;   // (rank, key) whose head has just become the head
};

}  // namespace

Verdict run_queued(const Program& program, const std::vector<LoweredList>& lists, bool per_peer) {
  return QueuedRun(program, lists, per_peer).run();
}

}  // namespace headrace::schedules::detail
