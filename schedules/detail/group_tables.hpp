// Forward and backward tables of the interleaved schedules.
//
// What it is for: interleaved_1f1b and interleaved_zb read the same tables: groups of microbatches,
// each through chunk after chunk (arXiv 2104.04473). What it does not do: interleave them. Thread
// rule: values and free functions, safe on any thread.
#pragma once

#include "schedules/detail/generators.hpp"

#include <cstdint>

namespace headrace::schedules::detail {

// Microbatches per group: spec.group by Megatron's rule (P <= group <= M, M mod group is 0 or at
// least P), or without one PyTorch's: rounds = max(1, M div P) must divide M, group = M / rounds,
// which allows M < P. kConfig with the nearest numbers that fit.
[[nodiscard]] Result<std::int32_t> group_of(const ScheduleSpec& spec);

// The k-th forward and the k-th backward of a rank, k in [0, M V). The last group is what remains.
class GroupTables {
 public:
  GroupTables(const ScheduleSpec& spec, std::int32_t group, std::int32_t rank)
      : ranks_(spec.ranks),
        chunks_(spec.chunks),
        microbatches_(spec.microbatches),
        group_(group),
        rank_(rank) {}

  [[nodiscard]] Action forward(std::int32_t k) const {
    const Place at = place(k);
    return make_action(ActionKind::kForward, at.chunk * ranks_ + rank_, at.microbatch);
  }
  [[nodiscard]] Action backward(ActionKind kind, std::int32_t k) const {
    const Place at = place(k);
    return make_action(kind, (chunks_ - 1 - at.chunk) * ranks_ + rank_, at.microbatch);
  }

 private:
  struct Place {
    std::int32_t chunk;
    std::int32_t microbatch;
  };
  [[nodiscard]] Place place(std::int32_t k) const {
    const std::int32_t first = k / (group_ * chunks_) * group_;
    const std::int32_t size = group_ < microbatches_ - first ? group_ : microbatches_ - first;
    const std::int32_t within = k - first * chunks_;
    return {within / size, first + within % size};
  }

  std::int32_t ranks_;
  std::int32_t chunks_;
  std::int32_t microbatches_;
  std::int32_t group_;
  std::int32_t rank_;
};

}  // namespace headrace::schedules::detail
