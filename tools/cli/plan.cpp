#include "tools/cli/plan.hpp"

#include "schedules/registry.hpp"
#include "schedules/validator.hpp"

namespace headrace::cli {
namespace {

Status at_schedule(const Status& status) {
  return {status.code(), "schedule: " + status.message()};
}

}  // namespace

Status print_plan(const config::Config& config) {
  schedules::ScheduleSpec spec;
  spec.name = config.schedule.name;
  spec.ranks = config.pipeline.ranks;
  spec.chunks = config.pipeline.chunks;
  spec.microbatches = config.batch.microbatches();
  spec.reverse_backward = config.schedule.reverse_backward;
  const Result<schedules::Program> program = schedules::make_program(spec);
  if (!program.is_ok()) return at_schedule(program.status());
  const Result<schedules::ProgramFacts> facts = schedules::validate(*program);
  if (!facts.is_ok()) return at_schedule(facts.status());
  return Status::ok();
}

}  // namespace headrace::cli
