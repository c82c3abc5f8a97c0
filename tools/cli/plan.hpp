// The plan of a run: what a configuration will do and need on this machine.
//
// What it is for: the one place where `config check` asks beyond the configuration itself. What it
// does not do: start anything. Thread rule: free function, safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/config/config.hpp"

namespace headrace::cli {

// Prints partition and memory per rank to stdout; a failure says why the configuration cannot run.
// @pre config is finished.
[[nodiscard]] Status print_plan(const config::Config& config);

}  // namespace headrace::cli
