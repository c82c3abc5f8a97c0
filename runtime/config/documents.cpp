#include "runtime/config/documents.hpp"

#include "runtime/config/schema.hpp"

#include <nlohmann/json.hpp>

#include <cmath>

namespace headrace::config {
namespace {

using Json = nlohmann::ordered_json;

std::string_view type_name(const KeyInfo& key) {
  switch (key.type) {
    case ValueType::kInteger:
      return "integer";
    case ValueType::kNumber:
      return "number";
    case ValueType::kBoolean:
      return "true or false";
    case ValueType::kWord:
      return "word";
    case ValueType::kText:
      return "text";
    case ValueType::kVocabulary:
      return "bytes or integer";
    case ValueType::kNumberPair:
      return "[number, number]";
    case ValueType::kLayers:
      return "list of layers";
    case ValueType::kFaultPoint:
      return "STAGE:STEP";
    case ValueType::kTimes:
      return "{F: number, I: number, W: number}";
  }
  return "";
}

std::string ticked(std::string_view text) {
  std::string result(1, '`');
  result += text;
  result += '`';
  return result;
}

std::string default_cell(const KeyInfo& key) {
  if (key.required) return "required";
  if (!key.derived.empty()) return std::string(key.derived);
  return ticked(default_text(key));
}

std::string allowed_cell(const KeyInfo& key) {
  if (key.words.empty()) {
    const std::string range = range_text(key);
    if (key.unit.empty() || range.empty()) return range + std::string(key.unit);
    return range + " " + std::string(key.unit);
  }
  std::string text;
  for (const std::string_view word : key.words) {
    if (!text.empty()) text += ", ";
    text += ticked(word);
  }
  return text;
}

std::string section_table(const SectionInfo& section) {
  std::string text = "\n## " + std::string(section.name) + "\n\n" + std::string(section.sentence);
  text += section.is_list ? " A list; each entry has these keys.\n" : "\n";
  text += "\n| key | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
  for (const KeyInfo& key : keys()) {
    if (key.section != section.name) continue;
    text += "| " + ticked(key.key) + " | " + std::string(type_name(key));
    text += key.nullable ? " or null" : "";
    text += " | " + default_cell(key) + " | " + allowed_cell(key) + " | ";
    text += std::string(key.sentence) + " |\n";
  }
  return text;
}

std::string local_keys() {
  std::string text;
  for (const KeyInfo& key : keys()) {
    if (!key.local) continue;
    if (!text.empty()) text += ", ";
    text += ticked(key_path(key));
  }
  return text;
}

Json limit(const KeyInfo& key, double value) {
  if (key.type == ValueType::kNumber || key.type == ValueType::kNumberPair ||
      key.type == ValueType::kTimes) {
    return value;
  }
  return static_cast<std::int64_t>(value);
}

void add_range(Json& node, const KeyInfo& key) {
  const Range& range = key.range;
  if (std::isfinite(range.min)) {
    node[range.min_open ? "exclusiveMinimum" : "minimum"] = limit(key, range.min);
  }
  if (std::isfinite(range.max)) {
    node[range.max_open ? "exclusiveMaximum" : "maximum"] = limit(key, range.max);
  }
}

Json ranged(const KeyInfo& key, std::string_view type) {
  Json node;
  node["type"] = type;
  add_range(node, key);
  return node;
}

Json words_node(const KeyInfo& key) {
  Json node;
  node["enum"] = Json::array();
  for (const std::string_view word : key.words) node["enum"].push_back(word);
  return node;
}

Json typed_node(const KeyInfo& key) {
  switch (key.type) {
    case ValueType::kInteger:
      return ranged(key, "integer");
    case ValueType::kNumber:
      return ranged(key, "number");
    case ValueType::kBoolean:
      return {{"type", "boolean"}};
    case ValueType::kWord:
      return words_node(key);
    case ValueType::kText:
      return {{"type", "string"}, {"minLength", 1}};
    case ValueType::kVocabulary:
      return {{"oneOf", Json::array({Json{{"const", "bytes"}}, ranged(key, "integer")})}};
    case ValueType::kNumberPair:
      return {
          {"type", "array"}, {"items", ranged(key, "number")}, {"minItems", 2}, {"maxItems", 2}};
    case ValueType::kLayers:
      return {{"type", "array"},
              {"items", {{"type", "string"}, {"pattern", "^[a-z][a-z0-9_]*(\\*[1-9][0-9]*)?$"}}},
              {"minItems", 1}};
    case ValueType::kTimes: {
      const Json number = ranged(key, "number");
      return {{"type", "object"},
              {"properties", {{"F", number}, {"I", number}, {"W", number}}},
              {"required", Json::array({"F", "I", "W"})},
              {"additionalProperties", false}};
    }
    case ValueType::kFaultPoint:
      return {{"type", "string"}, {"pattern", "^(0|[1-9][0-9]*):[1-9][0-9]*$"}};
  }
  return {};
}

Json key_node(const KeyInfo& key) {
  Json node = typed_node(key);
  if (key.nullable) node = Json{{"anyOf", Json::array({node, Json{{"type", "null"}}})}};
  node["description"] = key.sentence;
  if (!key.required && key.derived.empty() && key.type != ValueType::kFaultPoint) {
    const std::string text = default_text(key);
    node["default"] = Json::accept(text) ? Json::parse(text) : Json(text);
  }
  return node;
}

Json keys_node(std::string_view section) {
  Json node{{"type", "object"}, {"additionalProperties", false}};
  node["properties"] = Json::object();
  Json required = Json::array();
  for (const KeyInfo& key : keys()) {
    if (key.section != section) continue;
    node["properties"][std::string(key.key)] = key_node(key);
    if (key.required) required.push_back(key.key);
  }
  if (!required.empty()) node["required"] = required;
  return node;
}

}  // namespace

std::string reference_markdown() {
  std::string text =
      "# Configuration reference\n\n"
      "Generated by `headrace config reference`. Every key has one row; a key that is not here is\n"
      "refused. `--set section.key=value` on the command line obeys the same rules; `stages` and\n"
      "`ranks` are set whole. Relative paths start at the folder the command runs in.\n"
      "Processes of one run must agree on every key except " +
      local_keys() + ".\n";
  for (const SectionInfo& section : sections()) text += section_table(section);
  text += "\n## Refused by name\n\n| key | reason |\n|---|---|\n";
  for (const RefusedKey& refused : refused_keys()) {
    std::string path(refused.section);
    if (!path.empty()) path += '.';
    path += refused.key;
    text += "| " + ticked(path) + " | " + std::string(refused.reason) + " |\n";
  }
  return text;
}

std::string json_schema() {
  Json root{{"$schema", "https://json-schema.org/draft/2020-12/schema"},
            {"title", "Headrace configuration"},
            {"type", "object"},
            {"additionalProperties", false}};
  root["properties"] = Json::object();
  Json required = Json::array();
  for (const SectionInfo& section : sections()) {
    Json node = keys_node(section.name);
    if (section.is_list) node = Json{{"type", "array"}, {"items", node}, {"minItems", 1}};
    if (section.name == "stages") {
      node["type"] = Json::array({"array", "string"});
      node["pattern"] = "^[EtL|()*,0-9]+$";  // of a text alone
    }
    node["description"] = section.sentence;
    root["properties"][std::string(section.name)] = node;
    if (!section.is_list && has_required_keys(section.name)) required.push_back(section.name);
  }
  root["required"] = required;
  return root.dump(2) + "\n";
}

}  // namespace headrace::config
