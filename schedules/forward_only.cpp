// forward_only: evaluation and generation; groups of P microbatches go through chunk after chunk,
// the last group is what remains.
#include "schedules/detail/generators.hpp"

#include <algorithm>

namespace headrace::schedules::detail {

Result<Program> make_forward_only(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  program.forward_only = true;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(static_cast<std::size_t>(spec.microbatches) *
                 static_cast<std::size_t>(spec.chunks));
    for (std::int32_t begin = 0; begin < spec.microbatches; begin += spec.ranks) {
      const std::int32_t end = std::min(spec.microbatches, begin + spec.ranks);
      for (std::int32_t chunk = 0; chunk < spec.chunks; ++chunk)
        for (std::int32_t m = begin; m < end; ++m)
          list.push_back(make_action(ActionKind::kForward, chunk * spec.ranks + rank, m));
    }
  }
  return program;
}

}  // namespace headrace::schedules::detail
