#include "runtime/base/sha256.hpp"
#include "runtime/config/load.hpp"
#include "runtime/config/schema.hpp"

#include <string>

namespace headrace::config {
namespace {

enum class Keys { kAll, kShared };

std::string section_lines(std::string_view section, const void* object, std::string_view indent,
                          Keys which) {
  std::string lines;
  for (const KeyInfo& key : keys()) {
    if (key.section != section || (which == Keys::kShared && key.local)) continue;
    lines += std::string(indent) + std::string(key.key) + ": ";
    lines += value_text(key, key.binding.get(object)) + "\n";
  }
  return lines;
}

// The first line of a list entry carries the dash in place of its indent.
std::string list_entry(std::string_view section, const void* object, Keys which) {
  std::string lines = section_lines(section, object, "    ", which);
  lines[2] = '-';
  return lines;
}

std::string print(const Config& config, Keys which) {
  Config copy = config;
  std::string text;
  for (const SectionInfo& section : sections()) {
    if (!section.is_list) {
      text += std::string(section.name) + ":\n";
      text += section_lines(section.name, section.object(copy), "  ", which);
    } else if (section.name == "stages" && !config.stages.empty()) {
      text += "stages:\n";
      for (const StageConfig& stage : config.stages) text += list_entry("stages", &stage, which);
    } else if (section.name == "ranks" && !config.ranks.empty()) {
      text += "ranks:\n";
      for (const RankConfig& rank : config.ranks) text += list_entry("ranks", &rank, which);
    }
  }
  return text;
}

}  // namespace

std::string resolved_yaml(const Config& config) { return print(config, Keys::kAll); }

std::string config_hash(const Config& config) { return sha256_hex(print(config, Keys::kShared)); }

}  // namespace headrace::config
