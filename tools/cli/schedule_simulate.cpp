#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_facts.hpp"
#include "tools/cli/schedule_request.hpp"

#include <iostream>
#include <memory>

namespace headrace::cli {
namespace {

// Per rank, why it was idle; the four sum to `idle`.
Json causes_json(const schedules::Simulation& simulation) {
  Json rows = Json::array();
  for (const schedules::IdleCauses& causes : simulation.idle_causes)
    rows.push_back({{"warm_up", causes.warm_up},
                    {"cool_down", causes.cool_down},
                    {"dependency", causes.dependency},
                    {"transfer", causes.transfer}});
  return rows;
}

// Names of the rank and of the action, with its times.
Json path_json(const schedules::Simulation& simulation) {
  Json steps = Json::array();
  for (const schedules::CriticalStep& step : simulation.critical_path)
    steps.push_back({{"rank", step.rank.value},
                     {"action", schedules::to_string(step.action)},
                     {"start", step.start},
                     {"end", step.end}});
  return steps;
}

Json result_json(const ScheduleRequest& request, const SimulatedSchedule& simulated) {
  const ActionTimes& times = simulated.times;
  Json result = sizes_json(simulated.loaded.program);
  result["times"] = {{"F", times.forward},        {"B", times.backward},
                     {"I", times.backward_input}, {"W", times.backward_weight},
                     {"hop", request.hop},        {"communication", request.communication}};
  if (request.gradient_after_input) result["times"]["gradient_after_input"] = true;
  if (request.pair > 0) result["times"]["pair"] = request.pair;
  if (!times.note.empty()) result["times_note"] = times.note;
  result["makespan"] = simulated.simulation.makespan;
  result["busy"] = simulated.simulation.busy;
  result["idle"] = simulated.simulation.idle;
  result["idle_causes"] = causes_json(simulated.simulation);
  result["bubble_global"] = simulated.simulation.bubble_global;
  result["bubble_span"] = simulated.simulation.bubble_span;
  result["peak_activations"] = simulated.loaded.facts.peak_activations;
  result["hops"] = hops_per_microbatch(simulated.loaded.program);
  add_transports(result, simulated.loaded.program, request.transports);
  result["critical_path"] = path_json(simulated.simulation);
  return result;
}

void print_text(const ScheduleRequest& request, const Json& result,
                const SimulatedSchedule& simulated) {
  std::cout << sizes_text(simulated.loaded.program) << "\n";
  for (const std::string& note : simulated.loaded.notes) std::cout << note << "\n";
  if (!simulated.times.note.empty()) std::cout << simulated.times.note << "\n";
  std::cout << durations_text(request, simulated.times) << "\nmakespan       "
            << number_text(simulated.simulation.makespan) << "\nbubble         "
            << percent_text(simulated.simulation.bubble_global) << " global, "
            << percent_text(simulated.simulation.bubble_span) << " span\nidle           ";
  for (const double idle : simulated.simulation.idle) std::cout << " " << number_text(idle);
  std::cout << "\npeak           ";
  for (const std::int32_t peak : simulated.loaded.facts.peak_activations) std::cout << " " << peak;
  std::cout << " activations\nhops            "
            << number_text(hops_per_microbatch(simulated.loaded.program))
            << " transfers per microbatch\n";
  std::cout << transports_text(result);
}

Status simulate(const ScheduleRequest& request) {
  const Result<SimulatedSchedule> simulated = simulate_schedule(request);
  if (!simulated) return simulated.status();
  const Json result = result_json(request, *simulated);
  if (request.json)
    std::cout << result.dump(2) << "\n";
  else
    print_text(request, result, *simulated);
  return Status::ok();
}

}  // namespace

void add_schedule_simulate(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command =
      group.add_subcommand("simulate", "Makespan, idle time, bubbles and peaks for given times");
  command->footer(
      "Times are per stage chunk. Two bubbles: global counts every rank from 0 to the makespan,\n"
      "span (zero-bubble papers) from its first start to its last end.\n"
      "Examples:\n"
      "  headrace schedule simulate zb_h1 --ranks 4 --microbatches 8 --times F=1,B=2,I=1,W=1\n"
      "  headrace schedule simulate mine.csv --times F=1,I=1.2,W=0.8 --hop 0.1 --json");
  auto request = std::make_shared<ScheduleRequest>();
  add_source_options(*command, *request, "NAME");
  add_time_options(*command, *request);
  add_transports_flag(*command, request->transports);
  add_json_flag(*command, request->json);
  command->callback([request, &chosen] { chosen.run = [request] { return simulate(*request); }; });
}

}  // namespace headrace::cli
