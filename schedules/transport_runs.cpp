#include "schedules/detail/transport_runs.hpp"

#include "schedules/detail/validator_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace headrace::schedules::detail {
namespace {

// What both kinds of run share: every transfer as a message, where each rank stands, and the words
// for a stand-still.
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

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (Rank rank : ranks)
    text += (text.empty() ? "rank " : " and rank ") + std::to_string(rank.value);
  return text;
}

class BlockingRun : RunBase {
 public:
  BlockingRun(const Program& program, const std::vector<LoweredList>& lists,
              const BlockingModel& model)
      : RunBase(program, lists), model_(model), open_(lists.size(), 0) {}

  Verdict run() {
    run_awake([&](Rank rank) { advance(rank); });
    std::vector<Rank> stuck;
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      if (!has_ended(Rank{r})) stuck.push_back(Rank{r});
    if (!stuck.empty())
      refuse(
          stuck, [&](Rank rank) { return stop_of(rank); }, &verdict_);
    return verdict_;
  }

 private:
  // One directed link. By order, both queues hold what has no partner yet; by tag only `sends` is
  // used, for what waits for room.
  struct Channel {
    std::deque<std::size_t> sends;     // message
    std::deque<std::size_t> receives;  // message
    std::int32_t held = 0;
  };

  void advance(Rank rank) {
    while (!has_ended(rank) && open_[rank.index()] == 0) {
      const Span span = step(rank);
      if (is_transfer(action(rank, span.begin).kind)) {
        open_[rank.index()] = static_cast<std::int32_t>(span.end - span.begin);
        for (std::size_t at = span.begin; at < span.end; ++at) post(rank, at);
        // The last to end moved the step on.
        if (open_[rank.index()] > 0) return;
      } else {
        if (!make(rank, span)) return;
        ++step_[rank.index()];
      }
    }
  }

  void post(Rank rank, std::size_t at) {
    const Message m = message(rank, at);
    const auto id = static_cast<std::size_t>(m.id);
    (m.is_send ? send_at_ : receive_at_)[id] = static_cast<std::int32_t>(at);
    const Rank from = m.is_send ? rank : m.peer;
    const Rank to = m.is_send ? m.peer : rank;
    Channel& channel = channels_[{from, to}];
    if (model_.by_order)
      m.is_send ? send_by_order(&channel, id, from, to) : receive_by_order(&channel, id, from, to);
    else
      m.is_send ? send_by_tag(&channel, id, from, to) : receive_by_tag(&channel, id, from, to);
  }

  [[nodiscard]] bool has_room(const Channel& channel) const {
    return model_.buffers == kUnbounded || channel.held < model_.buffers;
  }

  void send_by_tag(Channel* channel, std::size_t id, Rank from, Rank to) {
    if (receive_at_[id] != kNowhere) {
      end_send(from, id);
      end_receive(to, id);
    } else if (has_room(*channel)) {
      ++channel->held;
      end_send(from, id);
    } else {
      channel->sends.push_back(id);
    }
  }

  void receive_by_tag(Channel* channel, std::size_t id, Rank from, Rank to) {
    if (send_at_[id] == kNowhere) return;
    if (is_done(from, static_cast<std::size_t>(send_at_[id]))) {  // it lies in the link
      --channel->held;
    } else {
      std::erase(channel->sends, id);
      end_send(from, id);
    }
    end_receive(to, id);
    fill(channel, from);
  }

  void send_by_order(Channel* channel, std::size_t id, Rank from, Rank to) {
    if (!channel->receives.empty()) {
      const std::size_t taker = channel->receives.front();
      channel->receives.pop_front();
      compare(id, taker, from, to);
      end_send(from, id);
      end_receive(to, taker);
      return;
    }
    channel->sends.push_back(id);
    if (!has_room(*channel)) return;
    ++channel->held;
    end_send(from, id);
  }

  void receive_by_order(Channel* channel, std::size_t id, Rank from, Rank to) {
    if (channel->sends.empty()) {
      channel->receives.push_back(id);
      return;
    }
    const std::size_t given = channel->sends.front();
    channel->sends.pop_front();
    compare(given, id, from, to);
    if (is_done(from, static_cast<std::size_t>(send_at_[given])))
      --channel->held;
    else
      end_send(from, given);
    end_receive(to, id);
    fill(channel, from);
  }

  // Moves a send that waits into the room that a receive has left. By order, the first `held` of
  // the queue lie in the link and the rest wait.
  void fill(Channel* channel, Rank from) {
    if (model_.buffers == kUnbounded || !has_room(*channel)) return;
    const std::size_t at = model_.by_order ? static_cast<std::size_t>(channel->held) : 0;
    if (at >= channel->sends.size()) return;
    const std::size_t id = channel->sends[at];
    if (!model_.by_order) channel->sends.pop_front();
    ++channel->held;
    end_send(from, id);
  }

  void compare(std::size_t given, std::size_t taker, Rank from, Rank to) {
    if (given == taker || verdict_.wrong_message) return;
    verdict_.wrong_message = true;
    verdict_.text = wrong_text(from, static_cast<std::size_t>(send_at_[given]), to,
                               static_cast<std::size_t>(receive_at_[taker]));
  }

  void end_send(Rank rank, std::size_t id) { end(rank, static_cast<std::size_t>(send_at_[id])); }
  void end_receive(Rank rank, std::size_t id) {
    end(rank, static_cast<std::size_t>(receive_at_[id]));
  }
  void end(Rank rank, std::size_t at) {
    mark_done(rank, at);
    if (--open_[rank.index()] > 0) return;
    ++step_[rank.index()];
    wake(rank);
  }

  [[nodiscard]] Stop stop_of(Rank rank) const {
    if (is_compute(action(rank, step(rank).begin).kind)) return local_stop_of(rank);
    std::vector<std::size_t> open;
    for (std::size_t at = step(rank).begin; at < step(rank).end; ++at)
      if (!is_done(rank, at)) open.push_back(at);
    Stop stop{open.front(), {}, peers_of(rank, open)};
    stop.text = "rank " + std::to_string(rank.value) + " at " + open_text(rank, open) +
                " waits for " + ranks_text(stop.on);
    return stop;
  }

  BlockingModel model_;
  std::vector<std::int32_t> open_;  // [rank] transfers of the current step that have not ended
  std::map<std::pair<Rank, Rank>, Channel> channels_;
  Verdict verdict_;
};

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

// The way back to `start` with the fewest steps, or empty.
std::vector<Rank> cycle_from(Rank start, const std::vector<std::vector<Rank>>& waits_on) {
  std::vector<Rank> before(waits_on.size(), Rank{-1});
  std::vector<Rank> reached{start};
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (Rank next : waits_on[reached[i].index()]) {
      if (next == start) {
        std::vector<Rank> cycle;
        for (Rank at = reached[i]; at != start; at = before[at.index()]) cycle.push_back(at);
        cycle.push_back(start);
        std::reverse(cycle.begin(), cycle.end());
        return cycle;
      }
      if (before[next.index()].value >= 0) continue;
      before[next.index()] = reached[i];
      reached.push_back(next);
    }
  return {};
}

}  // namespace

Message message_of(const Program& program, const Action& action) {
  const bool gradient =
      action.kind == ActionKind::kSendBackward || action.kind == ActionKind::kRecvBackward;
  Message message;
  message.is_send =
      action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
  const bool peer_is_above = message.is_send != gradient;
  const std::int32_t peer = action.stage.value + (peer_is_above ? 1 : -1);
  HEADRACE_CHECK(peer >= 0 && peer < program.stages, "a transfer beyond the last stage", peer);
  message.peer = program.rank_of(StageIndex{peer}, action.microbatch);
  const std::int64_t lower = std::min(peer, action.stage.value);
  message.id = 2 * (lower * program.microbatches + action.microbatch.value) + (gradient ? 1 : 0);
  return message;
}

std::vector<Rank> smallest_cycle(const std::vector<std::vector<Rank>>& waits_on) {
  std::vector<Rank> best;
  for (std::int32_t r = 0; r < static_cast<std::int32_t>(waits_on.size()); ++r) {
    const std::vector<Rank> cycle = cycle_from(Rank{r}, waits_on);
    if (!cycle.empty() && (best.empty() || cycle.size() < best.size())) best = cycle;
  }
  return best;
}

Verdict run_blocking(const Program& program, const std::vector<LoweredList>& lists,
                     const BlockingModel& model) {
  return BlockingRun(program, lists, model).run();
}

Verdict run_queued(const Program& program, const std::vector<LoweredList>& lists, bool per_peer) {
  return QueuedRun(program, lists, per_peer).run();
}

}  // namespace headrace::schedules::detail
