#include "schedules/registry.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/grid.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowOptions {
  schedules::ScheduleSpec spec;
  bool json = false;
};

Status list(bool json) {
  Json entries = Json::array();
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    if (json) {
      entries.push_back({{"name", info.name}, {"summary", info.summary}, {"rule", info.rule}});
    } else {
      std::cout << info.name << "\n  " << info.summary << "\n  needs: " << info.rule << "\n";
    }
  }
  if (json) std::cout << entries.dump(2) << "\n";
  return Status::ok();
}

std::string percent(double share) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f %%", 100 * share);
  return buffer;
}

void show_json(const schedules::Program& program, const schedules::ProgramFacts& facts,
               const schedules::Simulation& simulation) {
  Json result{{"schedule", program.schedule},
              {"ranks", program.ranks},
              {"chunks", program.chunks},
              {"stages", program.stages},
              {"microbatches", program.microbatches},
              {"makespan", simulation.makespan},
              {"bubble_global", simulation.bubble_global},
              {"bubble_span", simulation.bubble_span},
              {"peak_activations", facts.peak_activations}};
  result["actions"] = Json::array();
  for (const auto& rank : program.actions) {
    Json row = Json::array();
    for (const schedules::Action& action : rank) row.push_back(schedules::to_string(action));
    result["actions"].push_back(row);
  }
  std::cout << result.dump(2) << "\n";
}

void show_text(const schedules::Program& program, const schedules::ProgramFacts& facts,
               const schedules::Simulation& simulation) {
  std::cout << program.schedule << ": " << program.ranks << " ranks x " << program.chunks
            << " chunks, " << program.microbatches << " microbatches\n"
            << "a column is one F; B takes two; transfers take none; idle is .\n\n"
            << schedule_grid(simulation) << "\n"
            << "makespan " << simulation.makespan << " units, bubble "
            << percent(simulation.bubble_global) << " (global)\npeak activations per rank:";
  for (const std::int32_t peak : facts.peak_activations) std::cout << " " << peak;
  std::cout << "\n";
}

Status show(const ShowOptions& options) {
  const Result<schedules::Program> program = schedules::make_program(options.spec);
  if (!program.is_ok()) return program.status();
  const Result<schedules::ProgramFacts> facts = schedules::validate(*program);
  if (!facts.is_ok()) return facts.status();
  schedules::SimulationOptions unit;
  unit.stages = {schedules::StageCost{}};
  const schedules::Simulation simulation = schedules::simulate(*program, unit);
  if (options.json) {
    show_json(*program, *facts, simulation);
  } else {
    show_text(*program, *facts, simulation);
  }
  return Status::ok();
}

void add_list(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("list", "List the schedules by name");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print the result as JSON");
  command->callback([json, &chosen] { chosen.run = [json] { return list(*json); }; });
}

void add_show(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("show", "Draw a schedule as a grid of time and ranks");
  auto options = std::make_shared<ShowOptions>();
  schedules::ScheduleSpec& spec = options->spec;
  command->add_option("NAME", spec.name, "A name from `headrace schedule list`")->required();
  command->add_option("--ranks", spec.ranks, "Ranks of the pipeline, P")->required();
  command->add_option("--microbatches", spec.microbatches, "Microbatches per step, M")->required();
  command->add_option("--chunks", spec.chunks, "Stages on each rank, V (default 1)");
  command->add_flag("--reverse-backward", spec.descending_backward,
                    "gpipe: backwards in descending order");
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([options, &chosen] { chosen.run = [options] { return show(*options); }; });
}

}  // namespace

void add_schedule_commands(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* group = app.add_subcommand("schedule", "Work on schedules without a model");
  group->require_subcommand(1);
  add_list(*group, chosen);
  add_show(*group, chosen);
}

}  // namespace headrace::cli
