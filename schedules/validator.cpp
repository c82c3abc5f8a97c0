#include "schedules/validator.hpp"

#include "schedules/detail/validator_parts.hpp"

namespace headrace::schedules {

Result<ProgramFacts> validate(const Program& program) {
  HEADRACE_RETURN_IF_ERROR(detail::check_shape(program));
  detail::CellIndex index(program);
  HEADRACE_RETURN_IF_ERROR(detail::check_cells(program, &index));
  HEADRACE_RETURN_IF_ERROR(detail::check_compute(program, index));
  HEADRACE_RETURN_IF_ERROR(detail::check_step_end(program, index));
  HEADRACE_RETURN_IF_ERROR(detail::check_transfers(program, index));
  ProgramFacts facts = detail::measure_peaks(program);
  // Before the links: where ranks wait for each other, the cycle says more than the order of
  // messages.
  HEADRACE_RETURN_IF_ERROR(detail::check_progress(program, index, &facts));
  HEADRACE_RETURN_IF_ERROR(detail::check_links(program, index));
  return facts;
}

}  // namespace headrace::schedules
