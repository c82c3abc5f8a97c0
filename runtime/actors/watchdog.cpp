#include "runtime/actors/watchdog.hpp"

#include <algorithm>
#include <utility>

namespace headrace::actors {

Watchdog::Watchdog(const Board& board, std::vector<const kernels::Stream*> streams,
                   double limit_seconds)
    : board_(board),
      streams_(std::move(streams)),
      limit_ns_(limit_seconds * 1e9),
      views_(static_cast<std::size_t>(board.ranks())) {}

std::optional<std::string> Watchdog::judge(std::int64_t now_ns, StepIndex step) {
  if (judged_ns_ == 0 || now_ns - judged_ns_ > kLateNs) clock_start_ns_ = now_ns;
  judged_ns_ = now_ns;
  std::string inside;
  std::string waiting;
  bool all_wait = true;
  for (std::int32_t r = 0; r < board_.ranks(); ++r) {
    const BoardEntry entry = board_.read(Rank(r));
    inside += stuck_kernel(Rank(r), now_ns);
    const std::int64_t moved_ns = std::max(entry.since_ns, views_[Rank(r).index()].moved_ns);
    const bool late = entry.step.value > 0 && is_late(now_ns, moved_ns);
    const std::string who = "rank " + std::to_string(r);
    if (late && entry.waiting == WaitCause::kNone) {
      inside += who + " is inside " + to_string(entry.action) + " of step " +
                std::to_string(entry.step.value) + "; ";
    } else if (late && entry.step == step) {
      waiting +=
          who + " waits for " + to_string(entry.waiting) + " of " + to_string(entry.action) + "; ";
    } else {
      all_wait = false;
    }
  }
  if (inside.empty() && !all_wait) return std::nullopt;
  return inside + waiting;
}

bool Watchdog::is_late(std::int64_t now_ns, std::int64_t since_ns) const {
  return static_cast<double>(now_ns - std::max(since_ns, clock_start_ns_)) >= limit_ns_;
}

std::string Watchdog::stuck_kernel(Rank rank, std::int64_t now_ns) {
  const kernels::Stream* stream = rank.index() < streams_.size() ? streams_[rank.index()] : nullptr;
  if (stream == nullptr) return {};
  const kernels::StreamProgress progress = stream->progress();
  StreamView& view = views_[rank.index()];
  if (progress.finished != view.finished) {
    view.finished = progress.finished;
    view.moved_ns = now_ns;
  }
  if (!progress.in_work || !is_late(now_ns, view.moved_ns)) return {};
  return "the device of rank " + std::to_string(rank.value) + " is inside one kernel; ";
}

}  // namespace headrace::actors
