// looped_bfs (breadth-first pipeline, arXiv 2211.05953): all microbatches of a chunk, then of the
// next; backward the same way from the last chunk down. Microbatches ascend in the backward, so
// that weight gradients are added in order without holding inputs back; PyTorch's LoopedBFS
// descends (descending_backward). Both take the same time.
#include "schedules/detail/generators.hpp"

namespace headrace::schedules::detail {

Result<Program> make_looped_bfs(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  const std::int32_t count = spec.microbatches;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(2 * static_cast<std::size_t>(count) * static_cast<std::size_t>(spec.chunks));
    for (std::int32_t chunk = 0; chunk < spec.chunks; ++chunk)
      for (std::int32_t m = 0; m < count; ++m)
        list.push_back(make_action(ActionKind::kForward, chunk * spec.ranks + rank, m));
    for (std::int32_t chunk = spec.chunks - 1; chunk >= 0; --chunk)
      for (std::int32_t m = 0; m < count; ++m)
        list.push_back(make_action(ActionKind::kBackward, chunk * spec.ranks + rank,
                                   spec.descending_backward ? count - 1 - m : m));
  }
  return program;
}

}  // namespace headrace::schedules::detail
