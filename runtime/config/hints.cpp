#include "runtime/config/hints.hpp"

#include "runtime/config/schema.hpp"

#include <algorithm>
#include <vector>

namespace headrace::config {
namespace {

constexpr std::size_t kCompareBytesMax = 64;

// `micro-batches`, `microBatches` and `micro_batches` compare alike.
std::string compact(std::string_view text) {
  std::string result;
  for (const char c : text.substr(0, kCompareBytesMax)) {
    if (c == '_' || c == '-' || c == ' ' || c == '.') continue;
    result += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return result;
}

struct Nearest {
  std::string path;
  std::size_t distance = 0;
};

bool is_near(std::size_t distance, std::size_t length) {
  return distance <= std::max<std::size_t>(length / 3, length > 3 ? 2 : 1);
}

void consider(Nearest& best, std::string path, std::size_t distance) {
  if (best.path.empty() || distance < best.distance) best = {std::move(path), distance};
}

bool has_synonym(const KeyInfo& key, std::string_view compacted) {
  std::string_view rest = key.synonyms;
  while (!rest.empty()) {
    const std::size_t blank = rest.find(' ');
    if (compact(rest.substr(0, blank)) == compacted) return true;
    if (blank == std::string_view::npos) break;
    rest.remove_prefix(blank + 1);
  }
  return false;
}

// A key of that very name, or a known foreign name for it; in the same section first.
std::string exact_path(std::string_view section, std::string_view compacted) {
  for (const bool same_section : {true, false}) {
    for (const KeyInfo& key : keys()) {
      if ((key.section == section) == same_section && compact(key.key) == compacted) {
        return key_path(key);
      }
    }
    for (const KeyInfo& key : keys()) {
      if ((key.section == section) == same_section && has_synonym(key, compacted)) {
        return key_path(key);
      }
    }
  }
  return {};
}

std::string near_path(std::string_view section, std::string_view compacted) {
  Nearest best;
  if (section.empty()) {
    for (const SectionInfo& info : sections()) {
      consider(best, std::string(info.name), edit_distance(compacted, compact(info.name)));
    }
  }
  for (const bool same_section : {true, false}) {
    for (const KeyInfo& key : keys()) {
      if ((key.section == section) != same_section) continue;
      consider(best, key_path(key), edit_distance(compacted, compact(key.key)));
    }
    if (is_near(best.distance, compacted.size()) && !best.path.empty()) return best.path;
  }
  return {};
}

std::string choices(std::string_view section) {
  std::string text;
  if (section.empty()) {
    for (const SectionInfo& info : sections()) {
      text += (text.empty() ? "" : ", ") + std::string(info.name);
    }
    return "the sections are " + text;
  }
  for (const KeyInfo& key : keys()) {
    if (key.section == section) text += (text.empty() ? "" : ", ") + std::string(key.key);
  }
  return "the keys of " + std::string(section) + " are " + text;
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t columns = b.size() + 1;
  std::vector<std::size_t> table((a.size() + 1) * columns);
  const auto at = [&](std::size_t i, std::size_t j) -> std::size_t& {
    return table[i * columns + j];
  };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = i;
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
      }
    }
  }
  return at(a.size(), b.size());
}

std::string key_hint(std::string_view section, std::string_view key) {
  const std::string compacted = compact(key);
  std::string path = exact_path(section, compacted);
  if (path.empty()) path = near_path(section, compacted);
  if (path.empty()) return choices(section);
  return "did you mean " + path + "?";
}

std::string word_hint(Words words, std::string_view written) {
  std::string text = "expected ";
  const std::string compacted = compact(written);
  Nearest best;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
    consider(best, std::string(words[i]), edit_distance(compacted, compact(words[i])));
  }
  if (!compacted.empty() && is_near(best.distance, compacted.size())) {
    text += "; did you mean " + best.path + "?";
  }
  return text;
}

}  // namespace headrace::config
