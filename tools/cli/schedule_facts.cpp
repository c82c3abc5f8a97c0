#include "tools/cli/schedule_facts.hpp"

#include "schedules/transports.hpp"
#include "schedules/validator.hpp"

namespace headrace::cli {

std::vector<FindingText> findings_of(const schedules::Program& program) {
  std::vector<FindingText> findings;
  for (const schedules::Finding& finding : schedules::find_faults(program))
    findings.push_back({finding.rank.value, finding.cell, finding.text});
  return findings;
}

void add_transports(Json& result, const schedules::Program& program, bool transports) {
  result["deadlock"] = {{"runtime", "ok"}};
  if (!transports) return;
  const schedules::TransportReport report = schedules::examine_transports(program);
  for (const schedules::NamedVerdict& named : report.verdicts)
    result["deadlock"][named.lowering + "/" + named.model] = named.verdict.deadlock ? "deadlock"
                                                             : named.verdict.wrong_message
                                                                 ? "mismatch"
                                                                 : "ok";
  result["least_buffers"] = report.least_buffers;
  result["links"] = Json::array();
  for (const schedules::LinkMatching& link : report.links)
    result["links"].push_back({{"from", link.from.value},
                               {"to", link.to.value},
                               {"kind", link.gradient ? "gradient" : "activation"},
                               {"order_suffices", link.order_suffices},
                               {"shared_order_suffices", link.shared_order_suffices}});
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
