#include "schedules/registry.hpp"
#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_request.hpp"

#include <iostream>
#include <memory>

namespace headrace::cli {
namespace {

Status list(bool json) {
  Json entries = Json::array();
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    if (json) {
      entries.push_back({{"name", info.name},
                         {"summary", info.summary},
                         {"rule", info.rule},
                         {"chunks", info.chunks},  // 0: any
                         {"splits_backward", info.splits_backward},
                         {"replicas", info.two_replicas() ? 2 : 1}});
    } else {
      std::cout << info.name << "\n  " << info.summary << "\n  needs: " << info.rule << "\n";
    }
  }
  if (json) std::cout << entries.dump(2) << "\n";
  return Status::ok();
}

}  // namespace

void add_schedule_list(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("list", "List the schedules by name");
  command->footer("Examples:\n  headrace schedule list\n  headrace schedule list --json");
  auto json = std::make_shared<bool>(false);
  add_json_flag(*command, *json);
  command->callback([json, &chosen] { chosen.run = [json] { return list(*json); }; });
}

}  // namespace headrace::cli
