// The commands of `headrace schedule`, one file each.
//
// What it is for: schedule_commands.cpp gathers them. What it does not do: run them. Thread rule:
// owned by main's thread.
#pragma once

#include "tools/cli/command.hpp"

namespace headrace::cli {

void add_schedule_list(CLI::App& group, ChosenCommand& chosen);
void add_schedule_show(CLI::App& group, ChosenCommand& chosen);
void add_schedule_check(CLI::App& group, ChosenCommand& chosen);
void add_schedule_simulate(CLI::App& group, ChosenCommand& chosen);
void add_schedule_compare(CLI::App& group, ChosenCommand& chosen);
void add_schedule_export(CLI::App& group, ChosenCommand& chosen);
void add_schedule_import(CLI::App& group, ChosenCommand& chosen);

}  // namespace headrace::cli
