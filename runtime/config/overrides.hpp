// `--set section.key=value`, put into the YAML tree before anything is checked.
//
// What it is for: an override obeys the very rules of the file. What it does not do: judge keys or
// values (load.cpp does, as for the file). Thread rule: free functions, safe on any thread.
#pragma once

#include "runtime/config/yaml_tree.hpp"

#include <span>
#include <string>
#include <vector>

namespace headrace::config {

// Replaces or adds the value of each override in `root`; positions carry the override's number,
// from 1. Returns what is wrong with the overrides themselves.
[[nodiscard]] std::vector<YamlProblem> apply_overrides(YamlNode& root,
                                                       std::span<const std::string> overrides);

}  // namespace headrace::config
