#include "runtime/config/load.hpp"

#include "runtime/config/hints.hpp"
#include "runtime/config/layout.hpp"
#include "runtime/config/overrides.hpp"
#include "runtime/config/reader.hpp"
#include "runtime/config/rules.hpp"
#include "runtime/config/schema.hpp"
#include "runtime/config/yaml_tree.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <system_error>
#include <utility>
#include <vector>

namespace headrace::config {
namespace {

constexpr std::size_t kProblemsMax = 10;

// Walks a tree by the schema; collects every problem with its place, and the place of every key.
class Loader {
 public:
  Loader(std::string_view filename, std::span<const std::string> overrides)
      : filename_(filename), overrides_(overrides) {}

  Result<Config> load(std::string_view text) {
    YamlParse parsed = parse_yaml(text);
    if (parsed.problem) {
      add(parsed.problem->position, "", parsed.problem->message);
      return failure();
    }
    if (parsed.root.kind != NodeKind::kMap) {
      add({1, 1, 0}, "",
          parsed.root.kind == NodeKind::kEmpty
              ? "the file has no content; see `headrace config reference`"
              : "expected sections such as `model:`, found " +
                    std::string(describe(parsed.root.kind)));
      return failure();
    }
    for (YamlProblem& problem : apply_overrides(parsed.root, overrides_)) {
      add(problem.position, "", std::move(problem.message));
    }
    Config config;
    read_root(parsed.root, config);
    if (!problems_.empty()) return failure();
    for (const std::size_t rank : ranks_without_device_) {
      config.ranks[rank].device = config.run.device;
    }
    if (!settle_schedule(config)) return failure();
    derive(config);
    for (const RuleBreach& breach : check_rules(config)) {
      add(place_of(breach.path), breach.path, breach.message);
    }
    if (!problems_.empty()) return failure();
    for (const auto& [path, position] : places_) config.places.by_path[path] = where(position);
    return config;
  }

 private:
  struct Problem {
    SourcePosition position;
    std::string text;
  };

  // A schedule comes from a name or from a file; what --set says takes the other's place.
  bool settle_schedule(Config& config) {
    if (!places_.contains("schedule.name") || !config.schedule.file ||
        config.schedule.name == kFileSchedule) {
      return true;
    }
    const bool name_is_set = place_of("schedule.name").override_number > 0;
    const bool file_is_set = place_of("schedule.file").override_number > 0;
    if (name_is_set == file_is_set) {
      add(place_of("schedule.file"), "schedule.file",
          "schedule.name is set as well; a schedule comes from a name or from a file, leave one of "
          "them out");
      return false;
    }
    if (file_is_set) {
      config.schedule.name = kFileSchedule;
    } else {
      config.schedule.file.reset();
    }
    return true;
  }

  void add(SourcePosition position, const std::string& path, std::string message) {
    if (!path.empty()) message = path + ": " + message;
    problems_.push_back({position, where(position) + ": " + message});
  }

  [[nodiscard]] std::string where(SourcePosition position) const {
    if (position.override_number > 0) {
      return "--set " + overrides_[static_cast<std::size_t>(position.override_number - 1)];
    }
    return filename_ + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
  }

  // The key's own place, else the nearest enclosing one that the file has.
  [[nodiscard]] SourcePosition place_of(std::string path) const {
    for (;;) {
      const auto found = places_.find(path);
      if (found != places_.end()) return found->second;
      const std::size_t cut = path.find_last_of(".[");
      if (cut == std::string::npos) return {1, 1, 0};
      path.resize(cut);
    }
  }

  Status failure() {
    std::stable_sort(problems_.begin(), problems_.end(), [](const Problem& a, const Problem& b) {
      const auto order = [](const SourcePosition& p) {
        return std::array{p.override_number, p.line, p.column};
      };
      return order(a.position) < order(b.position);
    });
    std::string message;
    const std::size_t shown = std::min(problems_.size(), kProblemsMax);
    for (std::size_t i = 0; i < shown; ++i) {
      message += (i == 0 ? "" : "\n") + problems_[i].text;
    }
    if (shown < problems_.size()) {
      message += "\nand " + std::to_string(problems_.size() - shown) + " more";
    }
    return {StatusCode::kConfig, message};
  }

  // Reports a key that stands twice in one map and says which entries are first ones.
  std::vector<const YamlEntry*> first_entries(const YamlNode& map, const std::string& path) {
    std::map<std::string_view, const YamlEntry*> seen;
    std::vector<const YamlEntry*> entries;
    for (const YamlEntry& entry : map.entries) {
      const auto [at, inserted] = seen.emplace(entry.key, &entry);
      if (inserted) {
        entries.push_back(&entry);
        continue;
      }
      add(entry.key_position, join(path, entry.key),
          "repeated key; it also stands at " + where(at->second->key_position));
    }
    return entries;
  }

  static std::string join(const std::string& path, const std::string& key) {
    return path.empty() ? key : path + "." + key;
  }

  void read_root(const YamlNode& root, Config& config) {
    std::vector<std::string_view> present;
    for (const YamlEntry* entry : first_entries(root, "")) {
      const SectionInfo* section = find_section(entry->key);
      if (section == nullptr) {
        unknown_key("", "", *entry);
        continue;
      }
      present.push_back(section->name);
      places_[entry->key] = entry->key_position;
      read_section(*section, *entry, config);
    }
    for (const SectionInfo& section : sections()) {
      if (section.is_list || !has_required_keys(section.name)) continue;
      if (std::find(present.begin(), present.end(), section.name) == present.end()) {
        add({1, 1, 0}, std::string(section.name),
            "required section is missing; it needs " + required_list(section.name));
      }
    }
  }

  static std::string required_list(std::string_view section) {
    std::string text;
    for (const KeyInfo& key : keys()) {
      if (key.section != section || !key.required) continue;
      text += (text.empty() ? "" : ", ") + std::string(key.key);
    }
    return text;
  }

  void unknown_key(std::string_view section, const std::string& path, const YamlEntry& entry) {
    const std::string full = join(path, entry.key);
    if (const RefusedKey* refused = find_refused(section, entry.key)) {
      add(entry.key_position, full, std::string(refused->reason));
      return;
    }
    const std::string what = section.empty() ? "unknown section or key" : "unknown key";
    add(entry.key_position, full, what + "; " + key_hint(section, entry.key));
  }

  void read_section(const SectionInfo& section, const YamlEntry& entry, Config& config) {
    const std::string path(section.name);
    const YamlNode& node = entry.value;
    if (node.kind == NodeKind::kEmpty) {
      add(entry.key_position, path, "has no value");
    } else if (section.is_list) {
      read_list(section, node, config);
    } else if (node.kind != NodeKind::kMap) {
      add(node.position, path, "expected keys, found " + std::string(describe(node.kind)));
    } else {
      read_keys(section, path, node, entry.key_position, section.object(config));
    }
  }

  void read_list(const SectionInfo& section, const YamlNode& node, Config& config) {
    const std::string path(section.name);
    const bool is_text = node.kind == NodeKind::kPlain || node.kind == NodeKind::kQuoted;
    if (is_text && section.name == "stages") {
      read_layout(path, node, config);
      return;
    }
    if (node.kind != NodeKind::kList) {
      add(node.position, path, "expected a list, found " + std::string(describe(node.kind)));
      return;
    }
    if (node.items.empty()) {
      add(node.position, path, "an empty list; leave the key out for the automatic choice");
      return;
    }
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const YamlNode& item = node.items[i];
      const std::string item_path = path + "[" + std::to_string(i) + "]";
      places_[item_path] = item.position;
      if (item.kind != NodeKind::kMap) {
        add(item.position, item_path, "expected keys, found " + std::string(describe(item.kind)));
        continue;
      }
      if (section.name == "stages") {
        read_keys(section, item_path, item, item.position, &config.stages.emplace_back());
      } else {
        RankConfig& rank = config.ranks.emplace_back();
        read_keys(section, item_path, item, item.position, &rank);
        if (!places_.contains(item_path + ".device")) ranks_without_device_.push_back(i);
      }
    }
  }

  // `stages` as one text. Places point into it: of the key's own for what is missing.
  void read_layout(const std::string& path, const YamlNode& node, Config& config) {
    SourcePosition first = node.position;
    if (node.kind == NodeKind::kQuoted) ++first.column;
    LayoutParse parsed = parse_layout(node.text, first);
    if (parsed.problem) {
      SourcePosition position = first;
      position.column += static_cast<std::int32_t>(parsed.problem->offset);
      add(position, path,
          "character " + std::to_string(parsed.problem->offset + 1) +
              " of the layout: " + parsed.problem->message);
      return;
    }
    config.stages = std::move(parsed.stages);
    for (std::size_t s = 0; s < config.stages.size(); ++s) {
      const SourcePosition position = config.stages[s].layers.front().position;
      places_[path + "[" + std::to_string(s) + "]"] = position;
      places_[path + "[" + std::to_string(s) + "].layers"] = position;
    }
  }

  void read_keys(const SectionInfo& section, const std::string& path, const YamlNode& map,
                 SourcePosition section_position, void* object) {
    std::vector<const KeyInfo*> present;
    for (const YamlEntry* entry : first_entries(map, path)) {
      const KeyInfo* key = find_key(section.name, entry->key);
      if (key == nullptr) {
        unknown_key(section.name, path, *entry);
        continue;
      }
      present.push_back(key);
      read_entry(*key, join(path, entry->key), *entry, object);
    }
    for (const KeyInfo& key : keys()) {
      if (key.section != section.name || !key.required) continue;
      if (std::find(present.begin(), present.end(), &key) == present.end()) {
        add(section_position, join(path, std::string(key.key)),
            "required key is missing. " + std::string(key.sentence));
      }
    }
  }

  void read_entry(const KeyInfo& key, const std::string& path, const YamlEntry& entry,
                  void* object) {
    if (entry.value.kind == NodeKind::kEmpty) {
      add(entry.key_position, path, "has no value");
      return;
    }
    places_[path] = entry.value.position;
    ReadValue read = read_value(key, entry.value);
    if (read.problem) {
      add(read.problem->position, path, std::move(read.problem->message));
    } else {
      key.binding.set(object, read.value);
    }
  }

  std::string filename_;
  std::span<const std::string> overrides_;
  std::vector<Problem> problems_;
  std::map<std::string, SourcePosition> places_;  // by full path, of what the file or --set says
  std::vector<std::size_t> ranks_without_device_;
};

Status cannot_read(const std::string& path, const std::string& why) {
  return {StatusCode::kConfig, path + ": cannot be read as a configuration: " + why};
}

}  // namespace

Result<Config> load_config(const std::string& path, std::span<const std::string> overrides) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return cannot_read(path, "it is a folder; name a YAML file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return cannot_read(path, "no such file, or no permission");
  // One byte over the limit is enough for the parser to refuse the size.
  std::string text(kYamlBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return cannot_read(path, "reading failed");
  text.resize(static_cast<std::size_t>(file.gcount()));
  return parse_config(text, path, overrides);
}

Result<Config> parse_config(std::string_view text, std::string_view filename,
                            std::span<const std::string> overrides) {
  return Loader(filename, overrides).load(text);
}

Result<Config> finish_config(Config config) {
  std::vector<RuleBreach> breaches = check_ranges(config);
  if (breaches.empty()) {
    derive(config);
    breaches = check_rules(config);
  }
  if (breaches.empty()) return config;
  std::string message;
  for (const RuleBreach& breach : breaches) {
    message += (message.empty() ? "" : "\n") + breach.path + ": " + breach.message;
  }
  return Status{StatusCode::kConfig, message};
}

}  // namespace headrace::config
