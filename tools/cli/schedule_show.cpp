#include "tools/cli/grid.hpp"
#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_picture.hpp"
#include "tools/cli/schedule_request.hpp"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sys/ioctl.h>
#include <unistd.h>

namespace headrace::cli {
namespace {

struct ShowOptions {
  ScheduleRequest request;
  std::string svg;
  std::string html;
  bool critical_path = false;
};

void show_json(const SimulatedSchedule& shown) {
  const schedules::Program& program = shown.loaded.program;
  Json result = sizes_json(program);
  result["makespan"] = shown.simulation.makespan;
  result["idle"] = shown.simulation.idle;
  result["bubble_global"] = shown.simulation.bubble_global;
  result["bubble_span"] = shown.simulation.bubble_span;
  result["peak_activations"] = shown.loaded.facts.peak_activations;
  result["actions"] = Json::array();
  for (const auto& rank : program.actions) {
    Json row = Json::array();
    for (const schedules::Action& action : rank) row.push_back(schedules::to_string(action));
    result["actions"].push_back(row);
  }
  std::cout << result.dump(2) << "\n";
}

// Colour and folding belong to a terminal; NO_COLOR (set and not empty) turns colour off.
GridOptions grid_options() {
  GridOptions options;
  if (isatty(STDOUT_FILENO) == 0) return options;
  const char* refused = std::getenv("NO_COLOR");
  options.colour = refused == nullptr || *refused == '\0';
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  options.characters_max = known ? size.ws_col : 100;
  return options;
}

void show_text(const ShowOptions& options, const SimulatedSchedule& shown) {
  const GridScale scale = grid_scale(shown.simulation);
  std::cout << sizes_text(shown.loaded.program) << "\n"
            << durations_text(options.request, shown.times) << "; a column is "
            << number_text(scale.unit) << (scale.is_exact ? "" : ", starts and ends are rounded")
            << "; idle is .\n";
  if (!shown.times.note.empty()) std::cout << shown.times.note << "\n";
  for (const std::string& note : shown.loaded.notes) std::cout << note << "\n";
  std::cout << "\n" << schedule_grid(shown.loaded.program, shown.simulation, grid_options());
  std::cout << "\nmakespan " << number_text(shown.simulation.makespan) << ", bubble "
            << percent_text(shown.simulation.bubble_global) << " (global), "
            << percent_text(shown.simulation.bubble_span) << " (span)\nidle per rank:";
  for (const double idle : shown.simulation.idle) std::cout << " " << number_text(idle);
  std::cout << "\npeak activations per rank:";
  for (const std::int32_t peak : shown.loaded.facts.peak_activations) std::cout << " " << peak;
  std::cout << "\n";
}

Status write_pictures(const ShowOptions& options, const SimulatedSchedule& shown) {
  if (options.svg.empty() && options.html.empty()) return Status::ok();
  const PictureInput input{shown.loaded.program, shown.loaded.facts, shown.simulation,
                           durations_text(options.request, shown.times), options.critical_path};
  HEADRACE_RETURN_IF_ERROR(check_picture(input));
  if (!options.svg.empty()) HEADRACE_RETURN_IF_ERROR(write_text(options.svg, schedule_svg(input)));
  if (!options.html.empty())
    HEADRACE_RETURN_IF_ERROR(write_text(options.html, schedule_html(input)));
  return Status::ok();
}

Status show(const ShowOptions& options) {
  const Result<SimulatedSchedule> shown = simulate_schedule(options.request);
  if (!shown) return shown.status();
  HEADRACE_RETURN_IF_ERROR(write_pictures(options, *shown));
  if (options.request.json) {
    show_json(*shown);
  } else if (options.svg.empty() && options.html.empty()) {
    show_text(options, *shown);
  }
  return Status::ok();
}

}  // namespace

void add_schedule_show(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("show", "Draw a schedule as a grid of time and ranks");
  command->footer(
      "Examples:\n"
      "  headrace schedule show 1f1b --ranks 4 --microbatches 8\n"
      "  headrace schedule show zbv --ranks 4 --microbatches 10 --svg zbv.svg --html zbv.html\n"
      "  headrace schedule show mine.csv --times F=1,I=1.2,W=0.8 --hop 0.1");
  auto options = std::make_shared<ShowOptions>();
  add_source_options(*command, options->request, "NAME");
  add_time_options(*command, options->request);
  command->add_option("--svg", options->svg, "Write the picture here instead of the grid");
  command->add_option("--html", options->html, "Write a page with the picture and tooltips");
  command->add_flag("--critical-path", options->critical_path,
                    "Pictures: outline the actions that decide the makespan");
  add_json_flag(*command, options->request.json);
  command->callback([options, &chosen] { chosen.run = [options] { return show(*options); }; });
}

}  // namespace headrace::cli
