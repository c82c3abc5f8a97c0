// Transports where a rank goes on when its transfers have ended.
#include "schedules/detail/transport_run_base.hpp"

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace headrace::schedules::detail {
namespace {

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

}  // namespace

Verdict run_blocking(const Program& program, const std::vector<LoweredList>& lists,
                     const BlockingModel& model) {
  return BlockingRun(program, lists, model).run();
}

}  // namespace headrace::schedules::detail
