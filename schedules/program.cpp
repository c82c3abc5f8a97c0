#include "schedules/program.hpp"

namespace headrace::schedules {

Rank Program::rank_of(StageIndex stage, MicrobatchIndex microbatch) const {
  switch (placement) {
    case Placement::kLoop:
      return Rank{stage.value % ranks};
    case Placement::kVShape: {
      const std::int32_t column = stage.value % ranks;
      return Rank{(stage.value / ranks) % 2 == 0 ? column : ranks - 1 - column};
    }
    case Placement::kTable:
      return stage_ranks[stage.index()];
    case Placement::kBidirectional:
      return Rank{microbatch.value < microbatches / 2 ? stage.value : ranks - 1 - stage.value};
  }
  HEADRACE_CHECK(false, "unknown placement", static_cast<int>(placement));
  return Rank{0};
}

}  // namespace headrace::schedules
