#include "runtime/config/overrides.hpp"

#include "runtime/config/schema.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace headrace::config {
namespace {

struct Override {
  std::string section;  // or the whole path when there is no dot
  std::string key;
  YamlNode value;
};

void mark_origin(YamlNode& node, std::int32_t number) {
  node.position.override_number = number;
  for (YamlNode& item : node.items) mark_origin(item, number);
  for (YamlEntry& entry : node.entries) {
    entry.key_position.override_number = number;
    mark_origin(entry.value, number);
  }
}

YamlEntry* find_entry(YamlNode& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [key](const YamlEntry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

YamlEntry& find_or_add(YamlNode& map, const std::string& key, std::int32_t number) {
  if (YamlEntry* entry = find_entry(map, key)) return *entry;
  map.entries.push_back({key, {1, 1, number}, {}});
  map.entries.back().value.position = {1, 1, number};
  return map.entries.back();
}

std::optional<YamlProblem> split(const std::string& text, std::int32_t number, Override& result) {
  const SourcePosition position{1, 1, number};
  const std::size_t equals = text.find('=');
  const std::string path = text.substr(0, equals);
  if (equals == std::string::npos || path.empty()) {
    return YamlProblem{position, "expected section.key=value"};
  }
  const std::size_t dot = path.find('.');
  result.section = path.substr(0, dot);
  result.key = dot == std::string::npos ? "" : path.substr(dot + 1);
  if (result.section.empty() || (dot != std::string::npos && result.key.empty())) {
    return YamlProblem{position, "expected section.key=value"};
  }
  const SectionInfo* section = find_section(result.section);
  if (section != nullptr && !section->is_list && result.key.empty()) {
    return YamlProblem{position,
                       result.section + " is a section; expected " + result.section + ".key=value"};
  }
  if (section != nullptr && section->is_list && !result.key.empty()) {
    return YamlProblem{position, result.section + " is a list; set it whole, as in " +
                                     result.section + "=[{…}, {…}]"};
  }
  YamlParse parsed = parse_yaml(std::string_view(text).substr(equals + 1));
  if (parsed.problem) return YamlProblem{position, parsed.problem->message};
  result.value = std::move(parsed.root);
  mark_origin(result.value, number);
  return std::nullopt;
}

void put(YamlNode& root, Override& change, std::int32_t number) {
  YamlEntry& section = find_or_add(root, change.section, number);
  if (change.key.empty()) {
    section.key_position = {1, 1, number};
    section.value = std::move(change.value);
    return;
  }
  // A section that is no map in the file is refused there; it is left as it is.
  if (section.value.kind == NodeKind::kEmpty && section.value.position.override_number == number) {
    section.value.kind = NodeKind::kMap;
  }
  if (section.value.kind != NodeKind::kMap) return;
  YamlEntry& entry = find_or_add(section.value, change.key, number);
  entry.key_position = {1, 1, number};
  entry.value = std::move(change.value);
}

std::string path_of(const std::string& text) { return text.substr(0, text.find('=')); }

}  // namespace

std::vector<YamlProblem> apply_overrides(YamlNode& root, std::span<const std::string> overrides) {
  std::vector<YamlProblem> problems;
  for (std::size_t i = 0; i < overrides.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i + 1);
    const std::string path = path_of(overrides[i]);
    const std::span<const std::string> before = overrides.first(i);
    const auto earlier = std::find_if(before.begin(), before.end(),
                                      [&](const auto& other) { return path_of(other) == path; });
    if (earlier != before.end()) {
      problems.push_back({{1, 1, number}, "repeated; also given as --set " + *earlier});
      continue;
    }
    Override change;
    if (auto problem = split(overrides[i], number, change)) {
      problems.push_back(std::move(*problem));
      continue;
    }
    put(root, change, number);
  }
  return problems;
}

}  // namespace headrace::config
