#include "runtime/config/schema.hpp"
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

// The configuration that holds `section.key: value` and what else is required.
std::string only(const KeyInfo& key, const std::string& value) {
  if (key.section == "stages") {
    const bool layers = key.key == "layers";
    return sample_text() + "stages:\n  - layers: " + (layers ? value : "[embedding, block*4]") +
           (layers ? "" : "\n    " + std::string(key.key) + ": " + value) +
           "\n  - layers: [norm, head]\n";
  }
  if (key.section == "ranks") {
    return sample_text() + "ranks:\n  - { " + std::string(key.key) + ": " + value +
           " }\n  - { threads: 1 }\n";
  }
  return sample_text();
}

Result<Config> parse_with(const KeyInfo& key, const std::string& value) {
  const SectionInfo* section = find_section(key.section);
  std::vector<std::string> overrides;
  if (!section->is_list) overrides.push_back(key_path(key) + "=" + value);
  return parse(only(key, value), overrides);
}

// A value that the sample accepts for a key without a default.
std::string valid_value(const KeyInfo& key) {
  if (!key.required) return default_text(key);
  if (key.type == ValueType::kWord) return std::string(key.words.front());
  if (key.type == ValueType::kLayers) return "[embedding, block*4]";
  if (key.type == ValueType::kText) return "corpus.txt";
  if (key.key == "width") return "32";
  if (key.key == "layers") return "4";
  return "8";
}

}  // namespace

TEST_CASE("config: every key of the table is accepted with its default or a valid value") {
  CHECK(keys().size() >= 50);
  for (const KeyInfo& key : keys()) {
    CAPTURE(key_path(key));
    std::string value = valid_value(key);
    if (key.section == "model" && key.key == "heads") value = "4";
    const Result<Config> config = parse_with(key, value);
    CHECK_MESSAGE(config.is_ok(), config.status().message());
  }
}

TEST_CASE("config: every key is refused with a letter more and the hint names it") {
  for (const KeyInfo& key : keys()) {
    KeyInfo misspelt = key;
    const std::string wrong = std::string(key.key) + "x";
    misspelt.key = wrong;
    CAPTURE(wrong);
    if (find_section(key.section)->is_list) continue;
    const std::string message = parse_with(misspelt, "1").status().message();
    CHECK_MESSAGE(contains(message, key_path(misspelt) + ": unknown key; did you mean " +
                                        key_path(key) + "?"),
                  message);
  }
}

TEST_CASE("config: every key is refused without a value and at the wrong level") {
  for (const KeyInfo& key : keys()) {
    if (find_section(key.section)->is_list) continue;
    CAPTURE(key_path(key));
    CHECK(contains(parse_with(key, "").status().message(), "has no value"));
    if (find_section(key.key) != nullptr) continue;  // `ranks` is a section as well
    const std::string message = refusal(std::string(key.key) + ": 1\n" + sample_text());
    CHECK_MESSAGE(contains(message, "did you mean "), message);
    CHECK_MESSAGE(contains(message, "." + std::string(key.key) + "?"), message);
  }
}

TEST_CASE("config: every range is enforced at both ends") {
  for (const KeyInfo& key : keys()) {
    const bool number = key.type == ValueType::kInteger || key.type == ValueType::kNumber;
    if (!number) continue;
    CAPTURE(key_path(key));
    REQUIRE(std::isfinite(key.range.min));
    const std::string below = key.range.min_open ? "0" : "-1";
    if (key.range.min_open || key.range.min <= 1) {
      CHECK(contains(parse_with(key, below).status().message(), "is out of range; expected "));
    }
    if (std::isfinite(key.range.max)) {
      const std::string above = key.type == ValueType::kInteger ? "9000000000000000000" : "1e300";
      CHECK(contains(parse_with(key, above).status().message(), "is out of range; expected "));
    }
    if (key.range.max_open) {
      const std::string at_max = value_text(key, Value{key.range.max});
      CHECK(contains(parse_with(key, at_max).status().message(), "is out of range; expected "));
    }
  }
}

TEST_CASE("config: every enumeration has all its words") {
  for (const KeyInfo& key : keys()) {
    if (key.type != ValueType::kWord) continue;
    CAPTURE(key_path(key));
    for (const std::string_view word : key.words) {
      const std::string message = parse_with(key, std::string(word)).status().message();
      CHECK_MESSAGE(!contains(message, "is not known"), message);
    }
    CHECK(contains(parse_with(key, "nonsense").status().message(), "is not known; expected "));
  }
}

TEST_CASE("config: the table names each key once and says something about it") {
  std::set<std::string> paths;
  for (const KeyInfo& key : keys()) {
    CAPTURE(key_path(key));
    CHECK(paths.insert(key_path(key)).second);
    REQUIRE(find_section(key.section) != nullptr);
    CHECK(key.sentence.ends_with("."));
    CHECK((key.binding.set != nullptr && key.binding.get != nullptr));
    CHECK((key.type == ValueType::kWord) == !key.words.empty());
  }
  for (const RefusedKey& refused : refused_keys()) {
    CHECK(find_key(refused.section, refused.key) == nullptr);
    CHECK((refused.section.empty() ? find_section(refused.key) == nullptr
                                   : find_section(refused.section) != nullptr));
  }
}
