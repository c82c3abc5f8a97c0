// chimera (arXiv 2107.06925), hanayo (arXiv 2308.15762) and forward_only_v: orders that follow from
// slots. Every action gets a slot by a rule without collisions; a rank's list is its actions in
// ascending slots.
#include "schedules/detail/generators.hpp"

#include <algorithm>
#include <string>

namespace headrace::schedules::detail {
namespace {

struct Slotted {
  std::int64_t slot;
  Action action;
};

class SlotLists {
 public:
  explicit SlotLists(const Program& program) : lists_(program.actions.size()) {}

  void add(const Program& program, std::int64_t slot, const Action& action) {
    lists_[program.rank_of(action.stage, action.microbatch).index()].push_back({slot, action});
  }
  void fill(Program* program) {
    for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
      std::sort(lists_[rank].begin(), lists_[rank].end(),
                [](const Slotted& a, const Slotted& b) { return a.slot < b.slot; });
      program->actions[rank].reserve(lists_[rank].size());
      for (const Slotted& slotted : lists_[rank]) program->actions[rank].push_back(slotted.action);
    }
  }

 private:
  std::vector<std::vector<Slotted>> lists_;  // [rank]
};

// The i-th microbatch of a unit that begins at `base`: F of stage s in slot s + 2i, B in slot
// 2S - 1 - s + 2i.
void add_microbatch(const Program& program, std::int64_t base, std::int32_t i, std::int32_t m,
                    SlotLists* lists) {
  const std::int32_t stages = program.stages;
  for (std::int32_t s = 0; s < stages; ++s) {
    lists->add(program, base + s + 2 * i, make_action(ActionKind::kForward, s, m));
    lists->add(program, base + 2 * stages - 1 - s + 2 * i,
               make_action(ActionKind::kBackward, s, m));
  }
}

constexpr bool fits_units(std::int32_t ranks, std::int32_t microbatches) {
  return microbatches <= ranks || microbatches % ranks == 0;
}
constexpr bool fits_even_units(std::int32_t ranks, std::int32_t microbatches) {
  return microbatches % 2 == 0 && fits_units(ranks, microbatches);
}

}  // namespace

Result<Program> make_chimera(const ScheduleSpec& spec) {
  if (spec.ranks % 2 != 0)
    return refuse(spec, "P must be even, since the two directions meet in the middle; " +
                            nearest_even("P", spec.ranks));
  if (!fits_even_units(spec.ranks, spec.microbatches))
    return refuse(spec,
                  "M must be even, half of it for each direction, and at most P or a multiple of "
                  "P; " +
                      nearest_microbatches(spec, fits_even_units));
  Program program = empty_program(spec, Placement::kBidirectional);
  SlotLists lists(program);
  const std::int32_t half = std::min(spec.microbatches, spec.ranks) / 2;  // of a unit, a direction
  for (std::int32_t m = 0; m < spec.microbatches / 2; ++m) {
    const std::int64_t base = std::int64_t{m / half} * 2 * spec.ranks;
    add_microbatch(program, base, m % half, m, &lists);
    add_microbatch(program, base, m % half, spec.microbatches / 2 + m, &lists);
  }
  lists.fill(&program);
  return program;
}

Result<Program> make_hanayo(const ScheduleSpec& spec) {
  if (!fits_units(spec.ranks, spec.microbatches))
    return refuse(
        spec, "M must be at most P or a multiple of P; " + nearest_microbatches(spec, fits_units));
  Program program = empty_program(spec, Placement::kVShape);
  SlotLists lists(program);
  const std::int32_t unit = std::min(spec.microbatches, spec.ranks);
  for (std::int32_t m = 0; m < spec.microbatches; ++m)
    add_microbatch(program, std::int64_t{m / unit} * 2 * program.stages, m % unit, m, &lists);
  lists.fill(&program);
  return program;
}

Result<Program> make_forward_only_v(const ScheduleSpec& spec) {
  Program program = empty_program(spec, Placement::kVShape);
  program.forward_only = true;
  SlotLists lists(program);
  for (std::int32_t m = 0; m < spec.microbatches; ++m)
    for (std::int32_t s = 0; s < program.stages; ++s)
      lists.add(program, 2 * std::int64_t{m} + s, make_action(ActionKind::kForward, s, m));
  lists.fill(&program);
  return program;
}

}  // namespace headrace::schedules::detail
