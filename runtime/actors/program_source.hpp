// Which program a run executes: from a name, a file of the user, or a search.
//
// What it is for: config.schedule -> compute actions in the order and form a rank can run: one
// action at a time, weight gradients ascending, transfers inside F, B and I. What it does not do:
// add the step's end or size anything (plan.hpp). Thread rule: free functions, safe on any thread;
// a schedule file is read.
#pragma once

#include "runtime/base/broken_rule.hpp"
#include "runtime/config/config.hpp"
#include "schedules/program.hpp"
#include "schedules/stage_cost.hpp"

#include <vector>

namespace headrace::actors {

// Schedule and layout as the config names them. `costs`: per stage, for `auto` where
// schedule.times is left out. kConfig names the key and the numbers that do not fit.
[[nodiscard]] Result<schedules::Program> make_run_program(
    const config::Config& config, const std::vector<schedules::StageCost>& costs,
    BrokenRule broken_rule = BrokenRule::kNone);

}  // namespace headrace::actors
