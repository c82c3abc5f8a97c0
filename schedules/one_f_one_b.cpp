// 1f1b (PipeDream-flush, arXiv 2006.09503): after a warm-up of forwards each rank alternates one
// forward with one backward. Complete for every M >= 1, also below P.
#include "schedules/detail/warmup_lists.hpp"

namespace headrace::schedules::detail {

Result<Program> make_1f1b(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank)
    append_one_f_one_b(spec.microbatches, rank, spec.ranks - 1 - rank,
                       &program.actions[Rank{rank}.index()]);
  return program;
}

}  // namespace headrace::schedules::detail
