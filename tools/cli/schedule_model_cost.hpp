// What a configuration's model costs in stages, for schedules it was not written for.
//
// What it is for: `schedule compare CONFIG` needs times and bytes for every schedule, each with its
// own number of stages. What it does not do: run the model. Thread rule: a value.
#pragma once

#include "runtime/config/config.hpp"
#include "tools/cli/schedule_request.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::cli {

// Times of one rank's whole share of the model (1/P), for one microbatch.
struct ShareTimes {
  ActionTimes times;
  std::string unit;    // `s`, or empty for relative times
  std::string origin;  // where they come from, for people
};

struct ModelCost {
  std::vector<double> weights;            // [stage] share of the model's work, mean 1
  std::optional<std::int64_t> bytes_max;  // of the rank that needs most
  std::string bytes_reason;               // why bytes_max is empty
};

// Cuts the model for the schedule and sizes it. kConfig if it cannot be cut in so many stages.
[[nodiscard]] Result<ModelCost> model_cost(const config::Config& config,
                                           const schedules::ScheduleSpec& spec);

// The measured times in what `train --summary` wrote. kUsage if the file holds none.
[[nodiscard]] Result<ShareTimes> read_summary(const std::string& path, std::int32_t ranks);

}  // namespace headrace::cli
