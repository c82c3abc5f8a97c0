#include "runtime/config/schema.hpp"

#include "runtime/base/check.hpp"
#include "runtime/config/scalars.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::config {
namespace {

bool is_whole(ValueType type) {
  return type == ValueType::kInteger || type == ValueType::kVocabulary;
}

std::string limit_text(const KeyInfo& key, double limit) {
  if (is_whole(key.type)) return std::to_string(static_cast<std::int64_t>(limit));
  std::string text = format_number(limit);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string layers_text(const std::vector<LayerRun>& runs) {
  std::string text = "[";
  for (const LayerRun& run : runs) {
    if (text.size() > 1) text += ", ";
    text += run.kind;
    if (run.count != 1) text += "*" + std::to_string(run.count);
  }
  return text + "]";
}

Value default_value(const KeyInfo& key) {
  if (key.section == "stages") {
    const StageConfig stage;
    return key.binding.get(&stage);
  }
  if (key.section == "ranks") {
    const RankConfig rank;
    return key.binding.get(&rank);
  }
  Config config;
  const SectionInfo* section = find_section(key.section);
  HEADRACE_CHECK(section != nullptr, key.section);
  return key.binding.get(section->object(config));
}

std::string out_of_range(const KeyInfo& key, double value, const std::string& found) {
  if (in_range(key.range, value)) return {};
  std::string text = found + " is out of range; expected " + range_text(key);
  if (!key.unit.empty()) text += " " + std::string(key.unit);
  return text;
}

}  // namespace

const SectionInfo* find_section(std::string_view name) {
  const auto all = sections();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const SectionInfo& info) { return info.name == name; });
  return found == all.end() ? nullptr : &*found;
}

const KeyInfo* find_key(std::string_view section, std::string_view key) {
  const auto all = keys();
  const auto found = std::find_if(all.begin(), all.end(), [section, key](const KeyInfo& info) {
    return info.section == section && info.key == key;
  });
  return found == all.end() ? nullptr : &*found;
}

const RefusedKey* find_refused(std::string_view section, std::string_view key) {
  const auto all = refused_keys();
  const auto found = std::find_if(all.begin(), all.end(), [section, key](const RefusedKey& info) {
    return info.section == section && info.key == key;
  });
  return found == all.end() ? nullptr : &*found;
}

bool has_required_keys(std::string_view section) {
  const auto all = keys();
  return std::any_of(all.begin(), all.end(), [section](const KeyInfo& info) {
    return info.section == section && info.required;
  });
}

std::string key_path(const KeyInfo& key, int index) {
  std::string path(key.section);
  if (index >= 0) path += "[" + std::to_string(index) + "]";
  return path + "." + std::string(key.key);
}

bool in_range(const Range& range, double value) {
  if (!std::isfinite(value)) return false;
  const bool above = range.min_open ? value > range.min : value >= range.min;
  const bool below = range.max_open ? value < range.max : value <= range.max;
  return above && below;
}

std::string range_text(const KeyInfo& key) {
  const Range& range = key.range;
  if (std::isinf(range.min)) return {};
  const std::string low = limit_text(key, range.min);
  if (std::isinf(range.max)) return range.min_open ? "above " + low : low + " or more";
  const std::string high = limit_text(key, range.max);
  if (is_whole(key.type)) return low + ".." + high;
  return (range.min_open ? "(" : "[") + low + ", " + high + (range.max_open ? ")" : "]");
}

std::string range_problem(const KeyInfo& key, const Value& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value); integer && key.words.empty()) {
    return out_of_range(key, static_cast<double>(*integer), std::to_string(*integer));
  }
  if (const auto* number = std::get_if<double>(&value)) {
    return out_of_range(key, *number, format_number(*number));
  }
  if (const auto* pair = std::get_if<std::array<double, 2>>(&value)) {
    for (const double number : *pair) {
      std::string problem = out_of_range(key, number, format_number(number));
      if (!problem.empty()) return problem;
    }
  }
  if (const auto* times = std::get_if<ActionTimes>(&value)) {
    for (const double number : {times->forward, times->input, times->weight}) {
      std::string problem = out_of_range(key, number, format_number(number));
      if (!problem.empty()) return problem;
    }
  }
  if (const auto* vocabulary = std::get_if<Vocabulary>(&value)) {
    return out_of_range(key, vocabulary->size, std::to_string(vocabulary->size));
  }
  if (const auto* text = std::get_if<std::string>(&value); text && text->empty()) {
    return "an empty text; write a value";
  }
  return {};
}

std::string value_text(const KeyInfo& key, const Value& value) {
  struct Printer {
    const KeyInfo& key;

    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t integer) const {
      if (key.words.empty()) return std::to_string(integer);
      return std::string(key.words[static_cast<std::size_t>(integer)]);
    }
    std::string operator()(double number) const { return format_number(number); }
    std::string operator()(const std::string& text) const { return quote_text(text); }
    std::string operator()(const std::array<double, 2>& pair) const {
      return "[" + format_number(pair[0]) + ", " + format_number(pair[1]) + "]";
    }
    std::string operator()(const Vocabulary& vocabulary) const {
      return vocabulary.bytes ? "bytes" : std::to_string(vocabulary.size);
    }
    std::string operator()(const std::vector<LayerRun>& runs) const { return layers_text(runs); }
    std::string operator()(const ActionTimes& times) const {
      return "{F: " + format_number(times.forward) + ", I: " + format_number(times.input) +
             ", W: " + format_number(times.weight) + "}";
    }
    std::string operator()(const FaultPoint& point) const {
      return "\"" + std::to_string(point.stage) + ":" + std::to_string(point.step) + "\"";
    }
  };
  return std::visit(Printer{key}, value);
}

std::string default_text(const KeyInfo& key) {
  HEADRACE_CHECK(!key.required, key.section, key.key);
  return value_text(key, default_value(key));
}

}  // namespace headrace::config
