// One YAML node to one typed value, by the row that describes its key.
//
// What it is for: types, words and ranges. What it does not do: know which keys a section has
// (load.cpp). Thread rule: free functions, safe on any thread.
#pragma once

#include "runtime/config/schema.hpp"
#include "runtime/config/yaml_tree.hpp"

#include <optional>

namespace headrace::config {

struct ReadValue {
  Value value;
  std::optional<YamlProblem> problem;  // at the node, or inside it for lists
};

[[nodiscard]] ReadValue read_value(const KeyInfo& key, const YamlNode& node);

}  // namespace headrace::config
