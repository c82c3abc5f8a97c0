// What the keys must satisfy together, and what is derived from others.
//
// What it is for: batch arithmetic, head counts, layer sums: refused with the equation and the
// numbers. What it does not do: ranges of single keys (schema.hpp), what a layer kind or a schedule
// needs (stages/, schedules/). Thread rule: free functions, safe on any thread.
#pragma once

#include "runtime/config/config.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace headrace::config {

// schedule.name where the schedule comes from schedule.file.
inline constexpr std::string_view kFileSchedule = "file";

struct RuleBreach {
  std::string path;  // the key to change, such as `batch.size` or `stages[2].layers`
  std::string message;
};

// Fills kv_heads, hidden, decay_steps and ranks where they were left open.
// @pre every single value is in range.
void derive(Config& config);

// In section order. @pre derive(config)
[[nodiscard]] std::vector<RuleBreach> check_rules(const Config& config);

// Every single value that is out of its range, for a Config built in code.
[[nodiscard]] std::vector<RuleBreach> check_ranges(const Config& config);

}  // namespace headrace::config
