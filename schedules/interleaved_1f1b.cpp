// interleaved_1f1b (arXiv 2104.04473) with PyTorch's group rule: rounds = max(1, M div P) must
// divide M, a group is M / rounds microbatches. It allows M below P.
#include "schedules/detail/generators.hpp"

#include <algorithm>

namespace headrace::schedules::detail {
namespace {

constexpr std::int32_t rounds_of(std::int32_t ranks, std::int32_t microbatches) {
  return std::max(1, microbatches / ranks);
}

constexpr bool accepts(std::int32_t ranks, std::int32_t microbatches) {
  return microbatches % rounds_of(ranks, microbatches) == 0;
}

Status refuse_groups(const ScheduleSpec& spec) {
  std::int32_t below = spec.microbatches - 1;
  while (!accepts(spec.ranks, below)) --below;  // ends: every M up to P is accepted
  std::int32_t above = spec.microbatches + 1;
  while (!accepts(spec.ranks, above)) ++above;  // ends: every multiple of P is accepted
  const std::int32_t rounds = rounds_of(spec.ranks, spec.microbatches);
  return refuse(spec, "M must be a multiple of the rounds max(1, M div P) = " +
                          std::to_string(rounds) + "; the nearest M that fit are " +
                          std::to_string(below) + " and " + std::to_string(above));
}

// The k-th entry of a rank's forward or backward table: groups of microbatches, chunk by chunk.
struct Table {
  std::int32_t ranks;
  std::int32_t chunks;
  std::int32_t group;
  std::int32_t rank;

  [[nodiscard]] Action forward(std::int32_t k) const {
    return make_action(ActionKind::kForward, chunk(k) * ranks + rank, microbatch(k));
  }
  [[nodiscard]] Action backward(std::int32_t k) const {
    return make_action(ActionKind::kBackward, (chunks - 1 - chunk(k)) * ranks + rank,
                       microbatch(k));
  }
  [[nodiscard]] std::int32_t chunk(std::int32_t k) const { return k / group % chunks; }
  [[nodiscard]] std::int32_t microbatch(std::int32_t k) const {
    return k / (group * chunks) * group + k % group;
  }
};

}  // namespace

Result<Program> make_interleaved_1f1b(const ScheduleSpec& spec) {
  if (!accepts(spec.ranks, spec.microbatches)) return refuse_groups(spec);
  Program program = empty_program(spec);
  const std::int32_t group = spec.microbatches / rounds_of(spec.ranks, spec.microbatches);
  const std::int32_t count = spec.microbatches * spec.chunks;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    const Table table{spec.ranks, spec.chunks, group, rank};
    std::vector<Action>& list = program.actions[Rank{rank}.index()];
    list.reserve(2 * static_cast<std::size_t>(count));
    const std::int32_t warmup =
        std::min(count, (spec.chunks - 1) * group + 2 * (spec.ranks - 1 - rank));
    for (std::int32_t k = 0; k < warmup; ++k) list.push_back(table.forward(k));
    for (std::int32_t k = 0; k < count - warmup; ++k) {
      list.push_back(table.forward(warmup + k));
      list.push_back(table.backward(k));
    }
    for (std::int32_t k = count - warmup; k < count; ++k) list.push_back(table.backward(k));
  }
  return program;
}

}  // namespace headrace::schedules::detail
