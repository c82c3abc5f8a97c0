// eager_1f1b: 1f1b with twice the warm-up. The bubble is the same, but a hop's latency is paid only
// 2(P-1) times instead of with every microbatch; the price is up to 2(P-1-rank)+1 activations.
#include "schedules/detail/warmup_lists.hpp"

namespace headrace::schedules::detail {

Result<Program> make_eager_1f1b(const ScheduleSpec& spec) {
  Program program = empty_program(spec);
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank)
    append_one_f_one_b(spec.microbatches, rank, 2 * (spec.ranks - 1 - rank),
                       &program.actions[Rank{rank}.index()]);
  return program;
}

}  // namespace headrace::schedules::detail
