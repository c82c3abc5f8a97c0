// Corpus: training text or token shards as one sequence of token ids, cut into samples.
//
// What it is for: one view of a text file, a folder of text, raw 16- or 32-bit tokens and llm.c
// shards; everything that can be wrong with the data is refused when it is opened, except single
// token ids, which BatchLoader checks before anybody sees them.
// What it does not do: tokenize, shuffle, or follow a file that grows.
// Thread rule: a value that shares its immutable storage; distinct and shared objects may be read
// from any thread.
//
// 1. Sample i covers tokens [i*context, i*context + context]: its inputs are the first `context`
//    of them, its targets the same shifted by one. So sample_count = (tokens - 1) / context, and
//    the last (tokens - 1) % context tokens belong to no sample.
// 2. A single file is mapped, never loaded. A folder is read into memory once (its files are many
//    and small), up to CorpusOptions::folder_bytes_max.
// 3. A folder is every regular file below it, in bytewise order of the relative path, one after
//    the other without a separator. Hidden, empty and binary files (a NUL in the first 4 KiB) and
//    symbolic links are skipped and counted; the folder itself may be a link.
#pragma once

#include "runtime/base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::data {

enum class TokenFormat {
  kAuto,      // folder: text; llm.c magic: llmc; .bin, .u16: tokens16; .u32: tokens32; else text
  kText,      // each byte is a token
  kTokens16,  // raw little-endian uint16, as nanoGPT writes
  kTokens32,  // raw little-endian uint32
  // A header of 256 int32, then uint16 (magic 20240520, version 1) or uint32 (20240801, version 7).
  kLlmc,
};

// auto, text, tokens16, tokens32, llmc
[[nodiscard]] std::string_view to_string(TokenFormat format);
// kConfig with the valid names when it is none of them.
[[nodiscard]] Result<TokenFormat> parse_token_format(std::string_view name);

struct CorpusOptions {
  std::string path;  // file or folder
  TokenFormat format = TokenFormat::kAuto;
  std::int64_t vocabulary_size = 256;  // ids are 0..vocabulary_size-1
  std::int64_t context = 0;            // tokens per sample
  // A target with this id carries no loss. It stays a valid input only if it is inside the
  // vocabulary. Negative values stand for their 32-bit two's complement (-100 is 4294967196) in
  // 32-bit shards.
  std::optional<std::int64_t> ignore_token = std::nullopt;
  std::int64_t folder_bytes_max = std::int64_t{1} << 30;  // a larger folder is refused
};

// One file of the corpus; a single file or shard is the only document.
struct Document {
  std::string path;  // as a person would open it: the folder's path and the relative one
  std::int64_t first_token = 0;  // where it begins in the corpus
  std::int64_t token_count = 0;
  std::int64_t header_bytes = 0;  // before its first token
};

// Where a token lies, for messages.
struct TokenPlace {
  const Document* document = nullptr;  // lives as long as the corpus
  std::int64_t token_in_file = 0;
  std::int64_t byte_in_file = 0;
};

// What a folder held beside its documents.
struct SkippedFiles {
  std::int64_t hidden = 0;
  std::int64_t empty = 0;
  std::int64_t binary = 0;
  std::int64_t links = 0;
};

class Corpus {
 public:
  [[nodiscard]] const std::string& path() const;
  [[nodiscard]] TokenFormat format() const;  // never kAuto
  [[nodiscard]] int token_bytes() const;     // 1, 2 or 4
  [[nodiscard]] std::int64_t token_count() const;
  [[nodiscard]] std::int64_t sample_count() const;  // at least 1
  [[nodiscard]] std::int64_t context() const;
  [[nodiscard]] std::int64_t vocabulary_size() const;
  [[nodiscard]] std::optional<std::uint32_t> ignore_id() const;  // as it is stored in the file
  [[nodiscard]] std::span<const Document> documents() const;
  [[nodiscard]] const SkippedFiles& skipped() const;

  // The tokens as stored, without header. For kText, one byte each.
  [[nodiscard]] std::span<const std::byte> token_storage() const;
  // Copies ids [first, first + out.size()) as stored, unchecked against the vocabulary.
  // @pre 0 <= first and first + out.size() <= token_count()
  void read(std::int64_t first, std::span<std::uint32_t> out) const;
  // @pre 0 <= token < token_count()
  [[nodiscard]] TokenPlace locate(std::int64_t token) const;
  // kData when a mapped file shrank; call it before reads (see mapped_file.hpp for what remains).
  [[nodiscard]] Status check_readable() const;

  // 64 hex digits for logs and resume checks: SHA-256 over a version line, the format, then per
  // document its relative path (empty for a single file, so that it may be moved) and token count,
  // then the token bytes: all of them up to 64 MiB, beyond that the first and last MiB and 64 pages
  // of 4 KiB spread evenly between. Reads what it hashes; not cached.
  [[nodiscard]] std::string identity() const;

 private:
  struct Storage;
  friend struct CorpusBuilder;
  explicit Corpus(std::shared_ptr<const Storage> storage);

  std::shared_ptr<const Storage> storage_;
};

// kData when the data cannot be used, with path, tokens found and tokens needed (context + 1);
// kConfig when an option is out of range.
[[nodiscard]] Result<Corpus> open_corpus(const CorpusOptions& options);

}  // namespace headrace::data
