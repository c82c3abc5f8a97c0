// 1f1b (PipeDream-flush, arXiv 2006.09503): after a warm-up of forwards each rank alternates one
// forward with one backward. Complete for every M >= 1, also below P.
#include "schedules/detail/generators.hpp"

#include <algorithm>

namespace headrace::schedules::detail {

Result<Program> make_1f1b(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  const std::int32_t count = spec.microbatches;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(2 * static_cast<std::size_t>(count));
    const std::int32_t warmup = std::min(count, spec.ranks - 1 - rank);
    for (std::int32_t m = 0; m < warmup; ++m)
      list.push_back(make_action(ActionKind::kForward, rank, m));
    for (std::int32_t m = 0; m < count - warmup; ++m) {
      list.push_back(make_action(ActionKind::kForward, rank, warmup + m));
      list.push_back(make_action(ActionKind::kBackward, rank, m));
    }
    for (std::int32_t m = count - warmup; m < count; ++m)
      list.push_back(make_action(ActionKind::kBackward, rank, m));
  }
  return program;
}

}  // namespace headrace::schedules::detail
