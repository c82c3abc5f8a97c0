#include "runtime/config/reader.hpp"

#include "runtime/base/check.hpp"
#include "runtime/config/hints.hpp"
#include "runtime/config/scalars.hpp"

#include <algorithm>
#include <utility>

namespace headrace::config {
namespace {

ReadValue problem_at(const YamlNode& node, std::string message) {
  return {{}, YamlProblem{node.position, std::move(message)}};
}

bool is_scalar(const YamlNode& node) {
  return node.kind == NodeKind::kPlain || node.kind == NodeKind::kQuoted;
}

std::string expected(std::string_view wanted, const YamlNode& node) {
  return "expected " + std::string(wanted) + ", found " + std::string(describe(node.kind));
}

// Turns the Result of a text parser into a value or a problem at the node.
template <typename T>
ReadValue from_result(const YamlNode& node, Result<T> parsed) {
  if (!parsed.is_ok()) return problem_at(node, parsed.status().message());
  return {Value{std::move(parsed).value()}, std::nullopt};
}

// The unquoted text of a number or boolean, or a problem.
std::optional<YamlProblem> refuse_unless_plain(const YamlNode& node, std::string_view wanted) {
  if (node.kind == NodeKind::kQuoted) {
    return YamlProblem{node.position, "\"" + node.text + "\" in quotes is a text; expected " +
                                          std::string(wanted) + ", write it without quotes"};
  }
  if (node.kind != NodeKind::kPlain) return YamlProblem{node.position, expected(wanted, node)};
  return std::nullopt;
}

ReadValue read_number_like(const KeyInfo& key, const YamlNode& node) {
  const bool integer = key.type == ValueType::kInteger;
  const bool boolean = key.type == ValueType::kBoolean;
  const std::string_view wanted = boolean ? "true or false" : integer ? "an integer" : "a number";
  if (auto problem = refuse_unless_plain(node, wanted)) return {{}, std::move(problem)};
  if (boolean) return from_result(node, parse_boolean(node.text));
  if (integer) return from_result(node, parse_integer(node.text));
  return from_result(node, parse_number(node.text));
}

ReadValue read_word(const KeyInfo& key, const YamlNode& node) {
  if (!is_scalar(node)) return problem_at(node, expected("one word", node));
  const auto found = std::find(key.words.begin(), key.words.end(), node.text);
  if (found == key.words.end()) {
    return problem_at(node, "'" + node.text + "' is not known; " + word_hint(key.words, node.text));
  }
  return {Value{static_cast<std::int64_t>(found - key.words.begin())}, std::nullopt};
}

ReadValue read_text(const YamlNode& node) {
  if (!is_scalar(node)) return problem_at(node, expected("a text", node));
  return {Value{node.text}, std::nullopt};
}

ReadValue read_vocabulary(const KeyInfo& key, const YamlNode& node) {
  if (is_scalar(node) && node.text == "bytes") return {Value{Vocabulary{}}, std::nullopt};
  constexpr std::string_view kWanted = "bytes or an integer";
  if (auto problem = refuse_unless_plain(node, kWanted)) return {{}, std::move(problem)};
  const Result<std::int64_t> size = parse_integer(node.text);
  if (!size.is_ok()) {
    return problem_at(node, size.status().message() + " (expected bytes or an integer)");
  }
  if (!in_range(key.range, static_cast<double>(*size))) {
    return problem_at(node, node.text + " is out of range; expected bytes or " + range_text(key));
  }
  return {Value{Vocabulary{false, static_cast<std::int32_t>(*size)}}, std::nullopt};
}

ReadValue read_number_pair(const YamlNode& node) {
  constexpr std::string_view kWanted = "a list of two numbers, such as [0.9, 0.95]";
  if (node.kind != NodeKind::kList) return problem_at(node, expected(kWanted, node));
  if (node.items.size() != 2) {
    return problem_at(node, "expected " + std::string(kWanted) + ", found " +
                                std::to_string(node.items.size()) + " entries");
  }
  std::array<double, 2> pair{};
  for (std::size_t i = 0; i < pair.size(); ++i) {
    if (auto problem = refuse_unless_plain(node.items[i], "a number")) return {{}, problem};
    const Result<double> number = parse_number(node.items[i].text);
    if (!number.is_ok()) return problem_at(node.items[i], number.status().message());
    pair[i] = *number;
  }
  return {Value{pair}, std::nullopt};
}

ReadValue read_times(const YamlNode& node) {
  constexpr std::string_view kWanted = "three numbers, such as {F: 1, I: 1, W: 0.5}";
  if (node.kind != NodeKind::kMap) return problem_at(node, expected(kWanted, node));
  ActionTimes times;
  std::array<bool, 3> seen{};
  for (const YamlEntry& entry : node.entries) {
    const std::size_t which = std::string_view("FIW").find(entry.key);
    if (entry.key.size() != 1 || which == std::string_view::npos || seen[which]) {
      return problem_at(node, "expected " + std::string(kWanted) + ", each letter once; found '" +
                                  entry.key + "'");
    }
    if (auto problem = refuse_unless_plain(entry.value, "a number")) return {{}, problem};
    const Result<double> number = parse_number(entry.value.text);
    if (!number.is_ok()) return problem_at(entry.value, number.status().message());
    (which == 0 ? times.forward : which == 1 ? times.input : times.weight) = *number;
    seen[which] = true;
  }
  if (node.entries.size() != seen.size()) {
    return problem_at(node, "expected " + std::string(kWanted) + ", found " +
                                std::to_string(node.entries.size()) + " of them");
  }
  return {Value{times}, std::nullopt};
}

ReadValue read_layers(const YamlNode& node) {
  constexpr std::string_view kWanted = "a list of layers, such as [embedding, block*3]";
  if (node.kind != NodeKind::kList) return problem_at(node, expected(kWanted, node));
  if (node.items.empty()) {
    return problem_at(node, "a stage without layers; give it at least one, or use fewer ranks");
  }
  std::vector<LayerRun> runs;
  for (const YamlNode& item : node.items) {
    if (!is_scalar(item)) return problem_at(item, expected("a layer, such as block*3", item));
    Result<LayerRun> run = parse_layer_run(item.text);
    if (!run.is_ok()) return problem_at(item, run.status().message());
    run->position = item.position;
    runs.push_back(std::move(run).value());
  }
  return {Value{std::move(runs)}, std::nullopt};
}

ReadValue read_by_type(const KeyInfo& key, const YamlNode& node) {
  switch (key.type) {
    case ValueType::kInteger:
    case ValueType::kNumber:
    case ValueType::kBoolean:
      return read_number_like(key, node);
    case ValueType::kWord:
      return read_word(key, node);
    case ValueType::kText:
      return read_text(node);
    case ValueType::kVocabulary:
      return read_vocabulary(key, node);
    case ValueType::kNumberPair:
      return read_number_pair(node);
    case ValueType::kLayers:
      return read_layers(node);
    case ValueType::kTimes:
      return read_times(node);
    case ValueType::kFaultPoint:
      if (!is_scalar(node)) return problem_at(node, expected("STAGE:STEP, such as 1:5", node));
      return from_result(node, parse_fault_point(node.text));
  }
  HEADRACE_CHECK(false, "a value type without a reader");
  return {};
}

}  // namespace

ReadValue read_value(const KeyInfo& key, const YamlNode& node) {
  if (node.kind == NodeKind::kNull) {
    if (key.nullable) return {};
    return problem_at(node, "null is not allowed; write a value or leave the key out");
  }
  ReadValue read = read_by_type(key, node);
  if (!read.problem) {
    std::string problem = range_problem(key, read.value);
    if (!problem.empty()) read.problem = YamlProblem{node.position, std::move(problem)};
  }
  return read;
}

}  // namespace headrace::config
