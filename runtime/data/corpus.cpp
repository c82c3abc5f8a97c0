#include "runtime/data/corpus.hpp"

#include "runtime/base/check.hpp"
#include "runtime/base/sha256.hpp"
#include "runtime/data/detail/text_folder.hpp"
#include "runtime/data/detail/token_file.hpp"
#include "runtime/data/mapped_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

namespace headrace::data {
namespace {

constexpr std::array<std::pair<TokenFormat, std::string_view>, 5> kFormatNames{{
    {TokenFormat::kAuto, "auto"},
    {TokenFormat::kText, "text"},
    {TokenFormat::kTokens16, "tokens16"},
    {TokenFormat::kTokens32, "tokens32"},
    {TokenFormat::kLlmc, "llmc"},
}};

Status check_options(const CorpusOptions& options) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int32_t>::max();
  if (options.context < 1 || options.context >= kMax) {
    return {StatusCode::kConfig, "model.context is " + std::to_string(options.context) +
                                     "; a number from 1 to 2147483646 is expected"};
  }
  if (options.vocabulary_size < 1 || options.vocabulary_size > kMax) {
    return {StatusCode::kConfig, "model.vocabulary is " + std::to_string(options.vocabulary_size) +
                                     "; a number from 1 to 2147483647 is expected"};
  }
  if (options.folder_bytes_max < 0) {
    return {StatusCode::kConfig, "the limit of a data folder is negative: " +
                                     std::to_string(options.folder_bytes_max) + " bytes"};
  }
  if (options.path.empty()) {
    return {StatusCode::kData,
            "no data: the path is empty; name a text file, a folder of text or "
            "a token shard in data.train"};
  }
  return Status::ok();
}

// The ignore token as a shard of this width stores it.
Result<std::uint32_t> stored_ignore_id(std::int64_t id, int token_bytes) {
  const std::int64_t limit = std::int64_t{1} << (8 * token_bytes);
  const std::int64_t least = token_bytes == 4 ? -(limit / 2) : 0;
  if (id < least || id >= limit) {
    return Status{StatusCode::kConfig,
                  "the ignore token " + std::to_string(id) + " cannot occur in data of " +
                      std::to_string(8 * token_bytes) + " bits a token (" + std::to_string(least) +
                      " to " + std::to_string(limit - 1) + ")"};
  }
  return static_cast<std::uint32_t>(id);
}

std::string skipped_text(const SkippedFiles& skipped) {
  return "passed over " + std::to_string(skipped.hidden) + " hidden, " +
         std::to_string(skipped.empty) + " empty, " + std::to_string(skipped.binary) +
         " binary files and " + std::to_string(skipped.links) + " links";
}

// The path below `folder`, whether or not the folder was named with a slash at its end.
std::string relative_to(const std::string& folder, const std::string& path) {
  return path.substr(path.find_first_not_of('/', folder.size()));
}

}  // namespace

std::string_view to_string(TokenFormat format) {
  for (const auto& [value, name] : kFormatNames) {
    if (value == format) return name;
  }
  HEADRACE_CHECK(false, static_cast<int>(format));
  return {};
}

Result<TokenFormat> parse_token_format(std::string_view name) {
  for (const auto& [value, text] : kFormatNames) {
    if (text == name) return value;
  }
  return Status{StatusCode::kConfig, "the data format '" + std::string(name) +
                                         "' is unknown; auto, text, tokens16, tokens32 or llmc "
                                         "is expected"};
}

struct Corpus::Storage {
  CorpusOptions options;
  TokenFormat format = TokenFormat::kText;
  int token_bytes = 1;
  std::int64_t token_count = 0;
  std::optional<std::uint32_t> ignore_id;
  std::optional<MappedFile> file;      // a single file
  std::vector<std::byte> folder_text;  // a folder
  bool is_folder = false;
  std::vector<Document> documents;
  SkippedFiles skipped;
  std::span<const std::byte> tokens;  // into `file` or `folder_text`
};

// Builds the storage that open_corpus hands out.
struct CorpusBuilder {
  using Storage = Corpus::Storage;

  static Status fill_from_folder(Storage& storage) {
    const CorpusOptions& options = storage.options;
    if (options.format != TokenFormat::kAuto && options.format != TokenFormat::kText) {
      return {StatusCode::kData, "data '" + options.path + "' is a folder, and the format " +
                                     std::string(to_string(options.format)) +
                                     " needs one file; name the shard itself"};
    }
    Result<detail::TextFolder> folder =
        detail::read_text_folder(options.path, options.folder_bytes_max);
    if (!folder) return folder.status();
    storage.is_folder = true;
    storage.format = TokenFormat::kText;
    storage.folder_text = std::move(folder->bytes);
    storage.documents = std::move(folder->documents);
    storage.skipped = folder->skipped;
    storage.tokens = storage.folder_text;
    storage.token_count = static_cast<std::int64_t>(storage.folder_text.size());
    return Status::ok();
  }

  static Status fill_from_file(Storage& storage) {
    const CorpusOptions& options = storage.options;
    Result<MappedFile> file = MappedFile::open(options.path);
    if (!file) return file.status();
    const std::span<const std::byte> bytes = file->bytes();
    const Result<detail::TokenLayout> layout =
        detail::inspect_token_file({options.path, bytes, options.format, options.context + 1});
    if (!layout) return layout.status();
    storage.format = layout.value().format;
    storage.token_bytes = layout.value().token_bytes;
    storage.token_count = layout.value().token_count;
    storage.tokens = bytes.subspan(static_cast<std::size_t>(layout.value().header_bytes));
    storage.documents = {{options.path, 0, storage.token_count, layout.value().header_bytes}};
    storage.file = std::move(file).value();
    return Status::ok();
  }

  static Status check_length(const Storage& storage) {
    const std::int64_t needed = storage.options.context + 1;
    if (storage.token_count >= needed) return Status::ok();
    const std::int64_t bytes = storage.file
                                   ? static_cast<std::int64_t>(storage.file->bytes().size())
                                   : storage.token_count;
    std::string message =
        "data " + std::string(storage.is_folder ? "folder '" : "file '") + storage.options.path +
        "' is too short: " + detail::found_and_needed(storage.token_count, bytes, needed);
    if (storage.is_folder) {
      message += " in " + std::to_string(storage.documents.size()) + " text files (" +
                 skipped_text(storage.skipped) + ")";
    }
    return {StatusCode::kData, message + "; use more data or a smaller model.context"};
  }

  static Result<Corpus> build(const CorpusOptions& options) {
    HEADRACE_RETURN_IF_ERROR(check_options(options));
    auto storage = std::make_shared<Storage>();
    storage->options = options;
    std::error_code error;
    const bool is_folder = std::filesystem::is_directory(options.path, error);
    HEADRACE_RETURN_IF_ERROR(is_folder ? fill_from_folder(*storage) : fill_from_file(*storage));
    HEADRACE_RETURN_IF_ERROR(check_length(*storage));
    if (options.ignore_token) {
      const Result<std::uint32_t> id =
          stored_ignore_id(*options.ignore_token, storage->token_bytes);
      if (!id) return id.status();
      storage->ignore_id = id.value();
    }
    return Corpus(std::move(storage));
  }
};

Result<Corpus> open_corpus(const CorpusOptions& options) { return CorpusBuilder::build(options); }

Corpus::Corpus(std::shared_ptr<const Storage> storage) : storage_(std::move(storage)) {}

const std::string& Corpus::path() const { return storage_->options.path; }
TokenFormat Corpus::format() const { return storage_->format; }
int Corpus::token_bytes() const { return storage_->token_bytes; }
std::int64_t Corpus::token_count() const { return storage_->token_count; }
std::int64_t Corpus::sample_count() const { return (token_count() - 1) / context(); }
std::int64_t Corpus::context() const { return storage_->options.context; }
std::int64_t Corpus::vocabulary_size() const { return storage_->options.vocabulary_size; }
std::optional<std::uint32_t> Corpus::ignore_id() const { return storage_->ignore_id; }
std::span<const Document> Corpus::documents() const { return storage_->documents; }
const SkippedFiles& Corpus::skipped() const { return storage_->skipped; }
std::span<const std::byte> Corpus::token_storage() const { return storage_->tokens; }

void Corpus::read(std::int64_t first, std::span<std::uint32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  HEADRACE_CHECK(first >= 0 && first <= token_count() - count, first, count, token_count());
  const auto width = static_cast<std::size_t>(token_bytes());
  const std::byte* source = storage_->tokens.data() + static_cast<std::size_t>(first) * width;
  switch (width) {
    case 1:
      for (std::uint32_t& id : out) id = std::to_integer<std::uint32_t>(*source++);
      return;
    case 2:
      for (std::uint32_t& id : out) {
        std::uint16_t stored = 0;
        std::memcpy(&stored, source, sizeof(stored));
        source += sizeof(stored);
        id = stored;
      }
      return;
    default:
      std::memcpy(out.data(), source, out.size_bytes());
  }
}

TokenPlace Corpus::locate(std::int64_t token) const {
  HEADRACE_CHECK(token >= 0 && token < token_count(), token, token_count());
  const auto& documents = storage_->documents;
  const auto after = std::upper_bound(
      documents.begin(), documents.end(), token,
      [](std::int64_t wanted, const Document& document) { return wanted < document.first_token; });
  const Document& document = *std::prev(after);
  const std::int64_t token_in_file = token - document.first_token;
  return {&document, token_in_file, document.header_bytes + token_in_file * token_bytes()};
}

Status Corpus::check_readable() const {
  return storage_->file ? storage_->file->check_not_shrunk() : Status::ok();
}

std::string Corpus::identity() const {
  constexpr std::size_t kWhole = std::size_t{64} << 20;
  constexpr std::size_t kEnd = std::size_t{1} << 20;
  constexpr std::size_t kPage = 4096;
  constexpr std::size_t kPages = 64;
  Sha256 hash;
  hash.update("headrace corpus 1\n");
  hash.update(std::string(to_string(format())) + " " + std::to_string(token_bytes()) + "\n");
  for (const Document& document : storage_->documents) {
    const std::string name = storage_->is_folder ? relative_to(path(), document.path) : "";
    hash.update(std::to_string(name.size()) + ":" + name + " " +
                std::to_string(document.token_count) + "\n");
  }
  const std::span<const std::byte> tokens = storage_->tokens;
  if (tokens.size() <= kWhole) {
    hash.update(tokens);
    return hash.finish_hex();
  }
  hash.update(tokens.first(kEnd));
  const std::size_t stride = (tokens.size() - 2 * kEnd) / kPages;
  for (std::size_t i = 0; i < kPages; ++i) hash.update(tokens.subspan(kEnd + i * stride, kPage));
  hash.update(tokens.last(kEnd));
  return hash.finish_hex();
}

}  // namespace headrace::data
