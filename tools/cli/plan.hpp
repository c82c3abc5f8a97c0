// The plan of a run: what a configuration will do and need on this machine.
//
// What it is for: the one place where the commands ask beyond the configuration itself. What it
// does not do: start anything. Thread rule: free function, safe on any thread.
#pragma once

#include "runtime/actors/plan.hpp"
#include "runtime/base/status.hpp"
#include "runtime/config/config.hpp"

#include <string>

namespace headrace::cli {

// The plan of the configuration in `path`; a failure names that file and says why it cannot run.
// @pre config is finished.
[[nodiscard]] Result<actors::Plan> plan_of(const std::string& path, const config::Config& config);

}  // namespace headrace::cli
