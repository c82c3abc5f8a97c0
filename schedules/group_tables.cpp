#include "schedules/detail/group_tables.hpp"

#include <algorithm>
#include <string>

namespace headrace::schedules::detail {
namespace {

constexpr std::int32_t rounds_of(std::int32_t ranks, std::int32_t microbatches) {
  return std::max(1, microbatches / ranks);
}

// Holds for every M up to P and every multiple of P.
constexpr bool accepts(std::int32_t ranks, std::int32_t microbatches) {
  return microbatches % rounds_of(ranks, microbatches) == 0;
}

Status refuse_rounds(const ScheduleSpec& spec) {
  const std::int32_t rounds = rounds_of(spec.ranks, spec.microbatches);
  return refuse(spec, "M must be a multiple of the rounds max(1, M div P) = " +
                          std::to_string(rounds) + "; " + nearest_microbatches(spec, accepts));
}

}  // namespace

Result<std::int32_t> group_of(const ScheduleSpec& spec) {
  const std::int32_t count = spec.microbatches;
  if (spec.group == 0) {
    if (!accepts(spec.ranks, count)) return refuse_rounds(spec);
    return count / rounds_of(spec.ranks, count);
  }
  const std::string given = "the group of " + std::to_string(spec.group) + " microbatches ";
  if (spec.group < spec.ranks || spec.group > count)
    return refuse(spec,
                  given + "must be at least P and at most M; leave it out for M div (M div P)");
  const std::int32_t rest = count % spec.group;
  if (rest != 0 && rest < spec.ranks)
    return refuse(spec, given + "leaves a last group of " + std::to_string(rest) +
                            ", which must be at least P; give a group that divides M, or M itself");
  return spec.group;
}

}  // namespace headrace::schedules::detail
