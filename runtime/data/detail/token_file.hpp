// What a single data file holds: its format, header and token count.
//
// What it is for: deciding the format from content and name, and refusing files that cannot be what
// they were said to be.
// What it does not do: check token ids against a vocabulary, or that there are
// enough.
// Thread rule: free functions; safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headrace::data::detail {

struct TokenLayout {
  TokenFormat format = TokenFormat::kText;  // never kAuto
  int token_bytes = 1;
  std::int64_t header_bytes = 0;
  std::int64_t token_count = 0;
};

struct FileToInspect {
  std::string path;
  std::span<const std::byte> bytes;
  TokenFormat requested = TokenFormat::kAuto;
  std::int64_t tokens_needed = 0;  // for messages
};

[[nodiscard]] Result<TokenLayout> inspect_token_file(const FileToInspect& file);

// "found 3 tokens (6 bytes), at least 17 are needed (model.context + 1)"
[[nodiscard]] std::string found_and_needed(std::int64_t found, std::int64_t bytes,
                                           std::int64_t needed);

}  // namespace headrace::data::detail
