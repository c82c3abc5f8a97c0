// YAML text as a plain tree whose every node knows its place and whether it was quoted.
//
// What it is for: the strict loader judges scalars as text, sees repeated keys and tells an empty
// value from a written null; yaml-cpp's own nodes do none of these. What it does not do: know keys
// or types. Refused here, with line and column: tabs as indentation, anchors, aliases, tags, merge
// keys, keys that are no plain words, more than one document, control characters, nesting or size
// beyond the limits. Thread rule: free functions and values; distinct objects are independent.
#pragma once

#include "runtime/config/config.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::config {

inline constexpr std::size_t kYamlBytesMax = std::size_t{1} << 20;
inline constexpr std::size_t kYamlDepthMax = 16;

enum class NodeKind : std::uint8_t { kEmpty, kNull, kPlain, kQuoted, kList, kMap };

struct YamlEntry;

struct YamlNode {
  NodeKind kind = NodeKind::kEmpty;
  std::string text;                // of a scalar
  std::vector<YamlNode> items;     // of a list
  std::vector<YamlEntry> entries;  // of a map, in file order, repeated keys included
  SourcePosition position;
};

struct YamlEntry {
  std::string key;
  SourcePosition key_position;
  YamlNode value;
};

// What is wrong with a text, and where.
struct YamlProblem {
  SourcePosition position;
  std::string message;
};

struct YamlParse {
  YamlNode root;  // kEmpty when the text has no content
  std::optional<YamlProblem> problem;
};

// Never throws, for any bytes.
[[nodiscard]] YamlParse parse_yaml(std::string_view text);

// "a list", "a map", "an empty value", … for messages.
[[nodiscard]] std::string_view describe(NodeKind kind);

}  // namespace headrace::config
