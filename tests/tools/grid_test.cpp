#include "tools/cli/grid.hpp"

#include "schedules/registry.hpp"

#include <doctest/doctest.h>

using namespace headrace;

TEST_CASE("tools: the grid draws a row per rank with idle time and long actions") {
  schedules::ScheduleSpec spec;
  spec.name = "gpipe";
  spec.ranks = 2;
  spec.microbatches = 2;
  const Result<schedules::Program> program = schedules::make_program(spec);
  REQUIRE_MESSAGE(program.is_ok(), program.status().message());
  schedules::SimulationOptions unit;
  unit.stages = {schedules::StageCost{}};
  CHECK(cli::schedule_grid(*program, schedules::simulate(*program, unit)) ==
        "rank 0 0F0 0F1 .   .   .   0B0 -   0B1 -\n"
        "rank 1 .   1F0 1F1 1B0 -   1B1 -   .   .\n");
}
