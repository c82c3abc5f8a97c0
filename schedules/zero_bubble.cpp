// zb_h1 and zb_h2 (zero bubble, arXiv 2401.10241, section 2): the backward is split into I, which
// the rank below waits for, and W, which fills what would be bubble. zb_h1 holds P activations on
// every rank; zb_h2 warms up twice as long, holds up to 2P-1 and leaves no bubble in the span
// measure.
#include "schedules/detail/generators.hpp"

#include <algorithm>

namespace headrace::schedules::detail {
namespace {

// W of microbatch k - delay follows the k-th I at once; what is left of W stands at the end.
std::vector<Action> rank_list(std::int32_t count, std::int32_t stage, std::int32_t warmup,
                              std::int32_t delay) {
  std::vector<Action> list;
  list.reserve(3 * static_cast<std::size_t>(count));
  const std::int32_t ahead = std::min(count, warmup);
  for (std::int32_t m = 0; m < ahead; ++m)
    list.push_back(make_action(ActionKind::kForward, stage, m));
  for (std::int32_t k = 0; k < count; ++k) {
    if (ahead + k < count) list.push_back(make_action(ActionKind::kForward, stage, ahead + k));
    list.push_back(make_action(ActionKind::kBackwardInput, stage, k));
    if (k >= delay) list.push_back(make_action(ActionKind::kBackwardWeight, stage, k - delay));
  }
  for (std::int32_t m = std::max(0, count - delay); m < count; ++m)
    list.push_back(make_action(ActionKind::kBackwardWeight, stage, m));
  return list;
}

Program with_factor(const ScheduleSpec& spec, std::int32_t factor) {
  Program program = empty_program(spec);
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank)
    program.actions[Rank{rank}.index()] =
        rank_list(spec.microbatches, rank, factor * (spec.ranks - 1 - rank), factor * rank);
  return program;
}

}  // namespace

Result<Program> make_zb_h1(const ScheduleSpec& spec) { return with_factor(spec, 1); }
Result<Program> make_zb_h2(const ScheduleSpec& spec) { return with_factor(spec, 2); }

}  // namespace headrace::schedules::detail
