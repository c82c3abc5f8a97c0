#include "tools/cli/schedule_facts.hpp"

#include "schedules/validator.hpp"

namespace headrace::cli {

std::vector<FindingText> findings_of(const schedules::Program& program) {
  const auto facts = schedules::validate(program);
  if (facts) return {};
  return {{-1, -1, facts.status().message()}};
}

Json deadlock_json(const schedules::Program& program) {
  Json verdicts;
  verdicts["runtime"] = schedules::validate(program).is_ok() ? "ok" : "deadlock";
  return verdicts;
}

double hops_per_microbatch(const schedules::Program& program) {
  std::int64_t hops = 0;
  for (std::int32_t m = 0; m < program.microbatches; ++m)
    for (std::int32_t s = 0; s + 1 < program.stages; ++s)
      if (program.rank_of(StageIndex(s), MicrobatchIndex(m)) !=
          program.rank_of(StageIndex(s + 1), MicrobatchIndex(m)))
        hops += program.forward_only ? 1 : 2;
  return static_cast<double>(hops) / static_cast<double>(program.microbatches);
}

std::int32_t replicas_of(const schedules::Program& program) {
  return program.placement == schedules::Placement::kBidirectional ? 2 : 1;
}

}  // namespace headrace::cli
