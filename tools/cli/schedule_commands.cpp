#include "tools/cli/schedule_commands.hpp"

namespace headrace::cli {

void add_schedule_commands(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* group = app.add_subcommand("schedule", "Work on schedules without a model");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n"
      "  headrace schedule list\n"
      "  headrace schedule show zbv --ranks 4 --microbatches 10 --svg zbv.svg\n"
      "  headrace schedule compare --ranks 8 --microbatches 24");
  add_schedule_list(*group, chosen);
  add_schedule_show(*group, chosen);
  add_schedule_check(*group, chosen);
  add_schedule_simulate(*group, chosen);
  add_schedule_compare(*group, chosen);
  add_schedule_export(*group, chosen);
  add_schedule_import(*group, chosen);
}

}  // namespace headrace::cli
