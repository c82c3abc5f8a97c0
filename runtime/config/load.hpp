// Reading a configuration: strict YAML and `--set` overrides in, a finished Config or one message
// out.
//
// What it is for: what the file says is what runs, or nothing runs. Unknown, misplaced and repeated
// keys, empty values and values out of range are refused with file:line:column, the full key path
// and the nearest valid key. What it does not do: touch data files, devices or schedules. Thread
// rule: free functions, safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/config/config.hpp"

#include <span>
#include <string>
#include <string_view>

namespace headrace::config {

// Reads and finishes the file at `path`; each override is `section.key=value`, none twice.
// kConfig with up to ten problems, a line each, the first one first.
[[nodiscard]] Result<Config> load_config(const std::string& path,
                                         std::span<const std::string> overrides = {});

// The same for text already in memory; `filename` stands in messages.
[[nodiscard]] Result<Config> parse_config(std::string_view text, std::string_view filename,
                                          std::span<const std::string> overrides = {});

// Derives what was left to be derived (kv_heads, hidden, decay_steps, one entry per rank) and runs
// every range and cross-check, for a Config built in code.
[[nodiscard]] Result<Config> finish_config(Config config);

// The whole configuration as YAML in schema order, a pure function of `config`; parsing it gives an
// equal Config. @pre config is finished.
[[nodiscard]] std::string resolved_yaml(const Config& config);

// SHA-256 over resolved_yaml without the keys that may differ between processes (schema: local).
[[nodiscard]] std::string config_hash(const Config& config);

}  // namespace headrace::config
