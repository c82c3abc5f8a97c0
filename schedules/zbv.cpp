// zbv (ZB-V, arXiv 2401.10241, section 6; PyTorch's ScheduleZBVZeroBubble): two chunks per rank in
// V shape; no bubble in the span measure for F = I = W and M >= 2P-1, at 1f1b's peak memory.
#include "schedules/detail/generators.hpp"

#include <algorithm>
#include <array>

namespace headrace::schedules::detail {
namespace {

// One rank's list, for N >= 2P-1 microbatches of which those from M on are left out.
class ZbvList {
 public:
  ZbvList(const ScheduleSpec& spec, std::int32_t rank, std::vector<Action>* list)
      : ranks_(spec.ranks),
        count_(spec.microbatches),
        padded_(std::max(spec.microbatches, 2 * spec.ranks - 1)),
        rank_(rank),
        stages_{rank, 2 * spec.ranks - 1 - rank},
        list_(list) {
    list->reserve(6 * static_cast<std::size_t>(count_));
  }

  void fill() {
    for (std::int32_t i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(0);
    for (std::int32_t i = 0; i < rank_; ++i) forward(1), forward(0);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) forward(1), input(1), weight(1);
    while (forwards_[0] < padded_ || forwards_[1] < forwards_[0]) {
      if (forwards_[0] < padded_) forward(0);
      input(0), weight(0), forward(1), input(1), weight(1);
    }
    for (std::int32_t i = 0; i < rank_; ++i) input(0), input(1);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) input(0), weight(0);
    for (std::size_t chunk : {1U, 0U})
      while (weights_[chunk] < inputs_[chunk]) weight(chunk);
  }

 private:
  void forward(std::size_t chunk) { add(ActionKind::kForward, chunk, &forwards_); }
  void input(std::size_t chunk) { add(ActionKind::kBackwardInput, chunk, &inputs_); }
  void weight(std::size_t chunk) { add(ActionKind::kBackwardWeight, chunk, &weights_); }
  void add(ActionKind kind, std::size_t chunk, std::array<std::int32_t, 2>* done) {
    const std::int32_t m = (*done)[chunk]++;
    if (m < count_) list_->push_back(make_action(kind, stages_[chunk], m));
  }

  std::int32_t ranks_;
  std::int32_t count_;
  std::int32_t padded_;
  std::int32_t rank_;
  std::array<std::int32_t, 2> stages_;
  std::array<std::int32_t, 2> forwards_{};
  std::array<std::int32_t, 2> inputs_{};
  std::array<std::int32_t, 2> weights_{};
  std::vector<Action>* list_;
};

}  // namespace

Result<Program> make_zbv(const ScheduleSpec& spec) {
  Program program = empty_program(spec, Placement::kVShape);
  for (std::int32_t rank = 0; rank < spec.ranks; ++rank)
    ZbvList(spec, rank, &program.actions[Rank{rank}.index()]).fill();
  return program;
}

}  // namespace headrace::schedules::detail
