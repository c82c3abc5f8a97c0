// Reading a folder of text files into memory.
//
// What it is for: thousands of small files, as of a source tree, as one sequence of bytes in an
// order that does not depend on the file system.
// What it does not do: follow links, decode text, or map.
// Thread rule: free functions; safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace headrace::data::detail {

struct TextFolder {
  std::vector<std::byte> bytes;
  std::vector<Document> documents;  // in bytewise order of the relative path
  SkippedFiles skipped;
};

// Documents lie in `bytes` one after the other. An empty result is no failure here.
// kData when a file or folder below `root` cannot be read, or the text is larger than bytes_max.
// @pre root is a folder
[[nodiscard]] Result<TextFolder> read_text_folder(const std::string& root, std::int64_t bytes_max);

}  // namespace headrace::data::detail
