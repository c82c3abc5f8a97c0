// dualpipe (DeepSeek-V3, arXiv 2412.19437; deepseek-ai/DualPipe) and dualpipev, its half cut out of
// the two directions (the same repository; PyTorch's ScheduleDualPipeV). Both walk the same eight
// steps over two phases: in dualpipe a phase is a direction of the pipeline with a replica of its
// own, in dualpipev it is one of the rank's two chunks in V shape.
#include "schedules/detail/generators.hpp"

#include <array>
#include <cstddef>
#include <string>

namespace headrace::schedules::detail {
namespace {

// What a phase of one rank stands for: its stage, and its first microbatch.
struct Phase {
  std::int32_t stage;
  std::int32_t first;
  std::int32_t forwards = 0;
  std::int32_t backwards = 0;
};

class EightSteps {
 public:
  // half: ranks from an end to the middle; depth: distance of this rank from its end; count:
  // microbatches of a phase.
  EightSteps(std::int32_t half, std::int32_t depth, std::int32_t count, std::array<Phase, 2> phases,
             std::vector<Action>* list)
      : half_(half), depth_(depth), count_(count), phases_(phases), list_(list) {
    list->reserve(6 * static_cast<std::size_t>(count));
  }

  void fill() {
    const std::int32_t ahead = half_ - 1 - depth_;
    for (std::int32_t i = 0; i < 2 * ahead; ++i) forward(0);
    for (std::int32_t i = 0; i < depth_ + 1; ++i) forward(0), forward(1);
    for (std::int32_t i = 0; i < ahead; ++i) input(1), weight(), forward(1);
    steady();
    for (std::int32_t i = 0; i < ahead; ++i) backward(1), pair(1, 0);
    drain();
    for (std::int32_t i = 0; i < ahead; ++i) weight(), input(0);
    for (std::int32_t i = 0; i < depth_ + 1; ++i) weight();
  }

 private:
  void steady() {
    const std::int32_t rounds = count_ - 2 * half_ + depth_ + 1;
    for (std::int32_t i = 0; i < rounds; ++i) {
      // In the middle the first forward's own backward is what would stand beside it.
      if (i == 0 && depth_ == half_ - 1) {
        forward(0), backward(1);
      } else {
        pair(0, 1);
      }
      pair(1, 0);
    }
  }

  // From full backwards to split ones, halfway.
  void drain() {
    const std::int32_t turn = (depth_ + 1) / 2;
    const bool turns_before_1 = depth_ % 2 == 1;
    for (std::int32_t i = 0; i < depth_ + 1; ++i) {
      const bool splits_1 = i > turn || (i == turn && turns_before_1);
      const bool splits_0 = i >= turn;
      splits_1 ? input(1) : backward(1);
      splits_0 ? input(0) : backward(0);
    }
  }

  void pair(std::size_t forward_phase, std::size_t backward_phase) {
    forward(forward_phase);
    list_->back().overlaps_next = true;
    backward(backward_phase);
  }
  void forward(std::size_t at) { add(ActionKind::kForward, phases_[at], phases_[at].forwards++); }
  void backward(std::size_t at) {
    add(ActionKind::kBackward, phases_[at], phases_[at].backwards++);
  }
  void input(std::size_t at) {
    add(ActionKind::kBackwardInput, phases_[at], phases_[at].backwards++);
    Action waiting = list_->back();
    waiting.kind = ActionKind::kBackwardWeight;
    waiting_.push_back(waiting);
  }
  // The oldest that waits, of either phase.
  void weight() { list_->push_back(waiting_[next_weight_++]); }
  void add(ActionKind kind, const Phase& phase, std::int32_t number) {
    list_->push_back(make_action(kind, phase.stage, phase.first + number));
  }

  std::int32_t half_;
  std::int32_t depth_;
  std::int32_t count_;
  std::array<Phase, 2> phases_;
  std::vector<Action> waiting_;
  std::size_t next_weight_ = 0;
  std::vector<Action>* list_;
};

}  // namespace

Result<Program> make_dualpipe(const ScheduleSpec& spec) {
  if (spec.ranks % 2 != 0)
    return refuse(spec, "P must be even, since the two directions meet in the middle; " +
                            nearest_even("P", spec.ranks) + ", or use dualpipev");
  const auto fits = [](std::int32_t ranks, std::int32_t m) { return m % 2 == 0 && m >= 2 * ranks; };
  if (!fits(spec.ranks, spec.microbatches))
    return refuse(spec, "M must be even and at least 2P, half of it for each direction; " +
                            nearest_microbatches(spec, fits));
  Program program = empty_program(spec, Placement::kBidirectional);
  const std::int32_t half = spec.ranks / 2;
  const std::int32_t count = spec.microbatches / 2;
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank) {
    const bool is_lower = rank < half;
    const std::int32_t depth = is_lower ? rank : spec.ranks - 1 - rank;
    const Phase down{rank, 0};
    const Phase up{spec.ranks - 1 - rank, count};
    EightSteps(half, depth, count, {is_lower ? down : up, is_lower ? up : down},
               &program.actions[Rank{rank}.index()])
        .fill();
  }
  return program;
}

Result<Program> make_dualpipev(const ScheduleSpec& spec) {
  if (spec.microbatches < 2 * spec.ranks)
    return refuse(spec, "M must be at least 2P; the smallest M that fits is " +
                            std::to_string(2 * spec.ranks));
  Program program = empty_program(spec, Placement::kVShape);
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank)
    EightSteps(spec.ranks, rank, spec.microbatches,
               {Phase{rank, 0}, Phase{2 * spec.ranks - 1 - rank, 0}},
               &program.actions[Rank{rank}.index()])
        .fill();
  return program;
}

}  // namespace headrace::schedules::detail
