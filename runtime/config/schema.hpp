// The one description of every key: parser, defaults, reference, JSON Schema and hints come from
// it.
//
// What it is for: a key exists here or not at all. Defaults are the initializers of the structs in
// config.hpp, read through `get`. What it does not do: rules over several keys (rules.hpp).
// Thread rule: constant data and free functions, safe on any thread.
#pragma once

#include "runtime/config/config.hpp"
#include "runtime/config/words.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace headrace::config {

enum class ValueType : std::uint8_t {
  kInteger,
  kNumber,
  kBoolean,
  kWord,        // one of `words`
  kText,        // not empty
  kVocabulary,  // `bytes` or an integer
  kNumberPair,  // [number, number]
  kLayers,      // [kind, kind*count, …]
  kFaultPoint,  // STAGE:STEP
  kTimes,       // {F: number, I: number, W: number}
};

// A parsed value. null is monostate, a word its index.
using Value =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::array<double, 2>,
                 Vocabulary, std::vector<LayerRun>, FaultPoint, ActionTimes>;

struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_open = false;  // min itself is out
  bool max_open = false;
};

// Writes to and reads from a member of the section's struct.
struct Binding {
  void (*set)(void* section, const Value& value) = nullptr;
  Value (*get)(const void* section) = nullptr;
};

struct KeyInfo {
  std::string_view section = {};
  std::string_view key = {};
  ValueType type = ValueType::kInteger;
  bool required = false;
  bool nullable = false;  // `null` means absent
  bool local = false;     // may differ between the processes of a run; not hashed
  std::string_view unit = {};
  Range range = {};
  Words words = {};
  std::string_view derived = {};   // how a default that depends on other keys is found
  std::string_view synonyms = {};  // names other tools use, blank-separated, for hints
  std::string_view sentence = {};
  Binding binding = {};
};

struct SectionInfo {
  std::string_view name = {};
  std::string_view sentence = {};
  bool is_list = false;                // entries of the same keys
  void* (*object)(Config&) = nullptr;  // the section's struct; null for lists
};

// A key or section that is refused by name, with the reason, instead of as unknown.
struct RefusedKey {
  std::string_view section = {};  // empty = a top-level section
  std::string_view key = {};
  std::string_view reason = {};
};

[[nodiscard]] std::span<const SectionInfo> sections();
[[nodiscard]] std::span<const KeyInfo> keys();  // grouped by section, in section order
[[nodiscard]] std::span<const RefusedKey> refused_keys();

// nullptr when there is none.
[[nodiscard]] const SectionInfo* find_section(std::string_view name);
[[nodiscard]] const KeyInfo* find_key(std::string_view section, std::string_view key);
[[nodiscard]] const RefusedKey* find_refused(std::string_view section, std::string_view key);
[[nodiscard]] bool has_required_keys(std::string_view section);

// `optimizer.learning_rate`; with an index `stages[2].layers`.
[[nodiscard]] std::string key_path(const KeyInfo& key, int index = -1);

[[nodiscard]] bool in_range(const Range& range, double value);
// `1..65536`, `[0, 1)`, `above 0`, `0 or more`; empty for no limit.
[[nodiscard]] std::string range_text(const KeyInfo& key);
// Empty when `value` lies in the key's range, else what was expected and found.
[[nodiscard]] std::string range_problem(const KeyInfo& key, const Value& value);

// One value as YAML.
[[nodiscard]] std::string value_text(const KeyInfo& key, const Value& value);
// The default as YAML, read from a default-constructed struct. @pre !key.required
[[nodiscard]] std::string default_text(const KeyInfo& key);

}  // namespace headrace::config
