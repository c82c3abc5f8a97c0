#include "schedules/validator.hpp"

#include "schedules/detail/validator_parts.hpp"

#include <cstddef>
#include <string>

namespace headrace::schedules {
namespace {

constexpr std::size_t kToldMax = 4;  // what a message has room for
// A list of a few actions can lack millions: S and M come from the largest numbers in a file.
constexpr std::size_t kListedMax = 1000;

// Stops at the first check that finds something; `facts` are whole when none does.
void run_checks(const Program& program, ProgramFacts* facts, detail::Findings* findings) {
  detail::check_shape(program, findings);
  if (!findings->empty()) return;
  detail::CellIndex index(program);
  detail::check_cells(program, &index, findings);
  if (!findings->empty()) return;
  detail::check_compute(program, index, findings);
  if (!findings->empty()) return;
  detail::check_pairs(program, findings);
  if (!findings->empty()) return;
  detail::check_step_end(program, index, findings);
  if (!findings->empty()) return;
  detail::check_transfers(program, index, findings);
  if (!findings->empty()) return;
  *facts = detail::measure_peaks(program);
  // Before the links: where ranks wait for each other, the cycle says more than the order of
  // messages.
  detail::check_progress(program, index, facts, findings);
  if (!findings->empty()) return;
  detail::check_links(program, index, findings);
}

}  // namespace

Result<ProgramFacts> validate(const Program& program) {
  ProgramFacts facts;
  detail::Findings findings(kToldMax);
  run_checks(program, &facts, &findings);
  HEADRACE_RETURN_IF_ERROR(findings.status(program));
  return facts;
}

std::vector<Finding> find_faults(const Program& program) {
  ProgramFacts facts;
  detail::Findings findings(kListedMax);
  run_checks(program, &facts, &findings);
  std::vector<Finding> listed = findings.told();
  if (findings.untold() > 0)
    listed.push_back({Rank{-1}, -1, "and " + std::to_string(findings.untold()) + " more"});
  return listed;
}

}  // namespace headrace::schedules
