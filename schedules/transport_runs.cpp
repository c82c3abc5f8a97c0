// What transport runs say about messages and waits.
#include "schedules/detail/transport_run_base.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace headrace::schedules::detail {
namespace {

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

std::string ranks_text(const std::vector<Rank>& ranks) {
  std::string text;
  for (Rank rank : ranks)
    text += (text.empty() ? "rank " : " and rank ") + std::to_string(rank.value);
  return text;
}

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

}  // namespace headrace::schedules::detail
