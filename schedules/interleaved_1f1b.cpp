// interleaved_1f1b (arXiv 2104.04473): 1f1b over V chunks per rank, in groups of microbatches.
#include "schedules/detail/group_tables.hpp"

#include <algorithm>

namespace headrace::schedules::detail {

Result<Program> make_interleaved_1f1b(const ScheduleSpec& spec) {
  const Result<std::int32_t> group = group_of(spec);
  if (!group) return group.status();
  Program program = empty_program(spec);
  const std::int32_t count = spec.microbatches * spec.chunks;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    const GroupTables tables(spec, *group, rank);
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(2 * static_cast<std::size_t>(count));
    const std::int32_t ahead =
        std::min(count, (spec.chunks - 1) * *group + 2 * (spec.ranks - 1 - rank));
    for (std::int32_t k = 0; k < ahead; ++k) list.push_back(tables.forward(k));
    for (std::int32_t k = 0; k < count; ++k) {
      if (ahead + k < count) list.push_back(tables.forward(ahead + k));
      list.push_back(tables.backward(ActionKind::kBackward, k));
    }
  }
  return program;
}

}  // namespace headrace::schedules::detail
