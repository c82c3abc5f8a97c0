#include "tools/cli/schedule_facts.hpp"

#include "schedules/transports.hpp"
#include "schedules/validator.hpp"

#include <algorithm>
#include <utility>

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
  result["reasons"] = Json::object();
  for (const schedules::NamedVerdict& named : report.verdicts)
    if (named.verdict.deadlock || named.verdict.wrong_message)
      result["reasons"][named.lowering + "/" + named.model] = named.verdict.text;
  result["least_buffers"] = report.least_buffers;
  result["links"] = Json::array();
  for (const schedules::LinkMatching& link : report.links)
    result["links"].push_back({{"from", link.from.value},
                               {"to", link.to.value},
                               {"kind", link.gradient ? "gradient" : "activation"},
                               {"order_suffices", link.order_suffices},
                               {"shared_order_suffices", link.shared_order_suffices}});
}

std::string transports_text(const Json& result) {
  std::size_t ok = 0;
  for (const auto& [model, verdict] : result["deadlock"].items()) ok += verdict == "ok" ? 1 : 0;
  std::string text = "transports      " + std::to_string(ok) + " of " +
                     std::to_string(result["deadlock"].size()) +
                     " ways of moving messages are ok, the runtime's among them\n";
  // Several models often fail at the same place: a reason stands once, behind all their names.
  std::vector<std::pair<std::string, std::string>> names_of_reason;
  for (const auto& [model, verdict] : result["deadlock"].items()) {
    if (verdict == "ok") continue;
    const std::string reason =
        verdict.get<std::string>() + ": " + result["reasons"][model].get<std::string>();
    const auto known = std::find_if(names_of_reason.begin(), names_of_reason.end(),
                                    [&](const auto& entry) { return entry.first == reason; });
    if (known == names_of_reason.end())
      names_of_reason.emplace_back(reason, model);
    else
      known->second += ", " + model;
  }
  for (const auto& [reason, names] : names_of_reason)
    text += "                " + names + ": " + reason + "\n";
  if (result.contains("least_buffers"))
    text += "buffers         " + result["least_buffers"].dump() +
            " per link are needed where transfers are posted one by one\n";
  return text;
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
