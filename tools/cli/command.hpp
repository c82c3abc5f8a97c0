// What the command groups share: how a chosen command reaches main, and what every one is given.
//
// What it is for: parsing only remembers which command was chosen; main runs it afterwards and
// turns its Status into the exit code. What it does not do: parse or print. Thread rule: owned by
// main's thread.
#pragma once

#include "runtime/base/status.hpp"

#include <CLI/CLI.hpp>

#include <functional>

namespace headrace::cli {

// Set by the callback of the command that was given.
struct ChosenCommand {
  std::function<Status()> run;
  int stopped_by_signal = 0;  // set by a run that a signal ended at a step boundary
};

// Each adds one command group to `app`; its callbacks set `chosen`, which must outlive parsing.
void add_config_commands(CLI::App& app, ChosenCommand& chosen);
void add_schedule_commands(CLI::App& app, ChosenCommand& chosen);
void add_train_command(CLI::App& app, ChosenCommand& chosen);

}  // namespace headrace::cli
