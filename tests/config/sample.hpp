// A small valid configuration and short ways to break it.
//
// What it is for: every refusal test changes one line of one text. What it does not do: judge.
// Thread rule: free functions.
#pragma once

#include "runtime/config/load.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace headrace::config::testing {

inline const std::string& sample_text() {
  static const std::string text =
      "model:\n"                  // line 1
      "  kind: gpt2\n"            // 2
      "  layers: 4\n"             // 3
      "  width: 32\n"             // 4
      "  heads: 4\n"              // 5
      "  context: 16\n"           // 6
      "pipeline:\n"               // 7
      "  ranks: 2\n"              // 8
      "batch:\n"                  // 9
      "  size: 8\n"               // 10
      "  microbatch_size: 2\n"    // 11
      "data:\n"                   // 12
      "  train: corpus.txt\n"     // 13
      "optimizer:\n"              // 14
      "  learning_rate: 0.001\n"  // 15
      "run:\n"                    // 16
      "  steps: 10\n";            // 17
  return text;
}

// The sample with the first `from` replaced by `to`.
inline std::string changed(std::string_view from, std::string_view to) {
  std::string text = sample_text();
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

inline Result<Config> parse(std::string_view text, std::vector<std::string> overrides = {}) {
  return parse_config(text, "run.yaml", overrides);
}

// The refusal of `text`; empty when it was accepted.
inline std::string refusal(std::string_view text, std::vector<std::string> overrides = {}) {
  return parse(text, std::move(overrides)).status().message();
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace headrace::config::testing
