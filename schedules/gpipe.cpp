// gpipe (arXiv 1811.06965): all forwards, then all backwards.
#include "schedules/detail/generators.hpp"

namespace headrace::schedules::detail {

Result<Program> make_gpipe(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  const std::int32_t count = spec.microbatches;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(2 * static_cast<std::size_t>(count));
    for (std::int32_t m = 0; m < count; ++m)
      list.push_back(make_action(ActionKind::kForward, rank, m));
    for (std::int32_t m = 0; m < count; ++m) {
      const std::int32_t microbatch = spec.descending_backward ? count - 1 - m : m;
      list.push_back(make_action(ActionKind::kBackward, rank, microbatch));
    }
  }
  return program;
}

}  // namespace headrace::schedules::detail
