#include "runtime/data/detail/token_file.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

namespace headrace::data::detail {
namespace {

static_assert(std::endian::native == std::endian::little,
              "shards are little-endian, read in place");

constexpr std::size_t kProbeBytes = 4096;
constexpr std::size_t kLlmcHeaderBytes = 256 * sizeof(std::int32_t);

struct LlmcKind {
  std::int32_t magic;
  std::int32_t version;
  int token_bytes;
};
constexpr std::array<LlmcKind, 2> kLlmcKinds{{{20240520, 1, 2}, {20240801, 7, 4}}};

std::int32_t header_word(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t word = 0;
  std::memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}

const LlmcKind* llmc_kind(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(std::int32_t)) return nullptr;
  const std::int32_t magic = header_word(bytes, 0);
  for (const LlmcKind& kind : kLlmcKinds) {
    if (kind.magic == magic) return &kind;
  }
  return nullptr;
}

// How many bytes the UTF-8 sequence with this first byte has; 0 when no sequence begins so.
std::size_t utf8_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

// UTF-8 without control characters. 64 bytes of real token ids never look like that by chance; the
// distinct values keep a shard of one repeated token (padding) out of it.
bool looks_like_text(std::span<const std::byte> bytes) {
  const auto probe = bytes.first(std::min(bytes.size(), kProbeBytes));
  if (probe.size() < 64) return false;
  std::array<bool, 256> seen{};
  for (std::size_t i = 0; i < probe.size();) {
    const auto first = std::to_integer<unsigned char>(probe[i]);
    const bool blank = first >= '\t' && first <= '\r';
    const std::size_t length = utf8_length(first);
    if (length == 0 || first == 0x7F || (first < 0x20 && !blank)) return false;
    const std::size_t end = std::min(i + length, probe.size());
    for (std::size_t k = i + 1; k < end; ++k) {
      if ((std::to_integer<unsigned char>(probe[k]) & 0xC0U) != 0x80U) return false;
    }
    seen[first] = true;
    i = end;
  }
  return std::count(seen.begin(), seen.end(), true) >= 8;
}

bool ends_with(const std::string& path, std::string_view suffix) {
  return std::string_view(path).ends_with(suffix);
}

Status refuse(const FileToInspect& file, const std::string& reason) {
  return {StatusCode::kData, "data file '" + file.path + "' " + reason};
}

Result<TokenFormat> detect(const FileToInspect& file) {
  if (llmc_kind(file.bytes) != nullptr) return TokenFormat::kLlmc;
  if (ends_with(file.path, ".bin") || ends_with(file.path, ".u16")) return TokenFormat::kTokens16;
  if (ends_with(file.path, ".u32")) return TokenFormat::kTokens32;
  const auto probe = file.bytes.first(std::min(file.bytes.size(), kProbeBytes));
  const auto nul = std::find(probe.begin(), probe.end(), std::byte{0});
  if (nul == probe.end()) return TokenFormat::kText;
  return refuse(file, "has no format that its name or content tells: it is not text (byte " +
                          std::to_string(nul - probe.begin()) +
                          " is NUL), its name does not end in .bin, .u16 or .u32, and it has no "
                          "llm.c header; set data.format to text, tokens16, tokens32 or llmc");
}

Result<TokenLayout> raw_layout(const FileToInspect& file, TokenFormat format, int token_bytes) {
  const auto size = static_cast<std::int64_t>(file.bytes.size());
  const std::int64_t count = size / token_bytes;
  const std::string width = std::to_string(8 * token_bytes);
  if (looks_like_text(file.bytes)) {
    return refuse(file, "was read as " + std::string(to_string(format)) +
                            " but its beginning is text; set data.format to text, or tokenize it");
  }
  if (size % token_bytes != 0) {
    return refuse(file, "does not hold whole " + width + "-bit tokens: " +
                            std::to_string(size % token_bytes) + " bytes are left over; " +
                            found_and_needed(count, size, file.tokens_needed) +
                            "; the file is cut or has another format (data.format)");
  }
  return TokenLayout{format, token_bytes, 0, count};
}

Result<TokenLayout> llmc_layout(const FileToInspect& file) {
  const auto size = static_cast<std::int64_t>(file.bytes.size());
  const LlmcKind* kind = llmc_kind(file.bytes);
  if (kind == nullptr) {
    return refuse(file,
                  "is no llm.c shard: it does not begin with the magic number 20240520 or "
                  "20240801; " +
                      found_and_needed(0, size, file.tokens_needed) +
                      "; set data.format to what it is");
  }
  if (file.bytes.size() < kLlmcHeaderBytes) {
    return refuse(file, "ends inside its llm.c header of " + std::to_string(kLlmcHeaderBytes) +
                            " bytes; " + found_and_needed(0, size, file.tokens_needed) +
                            "; write it again");
  }
  const std::int32_t version = header_word(file.bytes, 1);
  if (version != kind->version) {
    return refuse(file, "has llm.c magic " + std::to_string(kind->magic) + " with version " +
                            std::to_string(version) + "; version " + std::to_string(kind->version) +
                            " is expected");
  }
  const std::int64_t promised = header_word(file.bytes, 2);
  const std::int64_t payload = size - static_cast<std::int64_t>(kLlmcHeaderBytes);
  if (promised < 0 || promised * kind->token_bytes != payload) {
    return refuse(file,
                  "has an llm.c header that promises " + std::to_string(promised) + " tokens (" +
                      std::to_string(promised * kind->token_bytes) + " bytes), but " +
                      std::to_string(payload) + " bytes follow it; " +
                      found_and_needed(payload / kind->token_bytes, size, file.tokens_needed) +
                      "; the file is cut or was written by something else");
  }
  return TokenLayout{TokenFormat::kLlmc, kind->token_bytes,
                     static_cast<std::int64_t>(kLlmcHeaderBytes), promised};
}

}  // namespace

std::string found_and_needed(std::int64_t found, std::int64_t bytes, std::int64_t needed) {
  return "found " + std::to_string(found) + " tokens (" + std::to_string(bytes) +
         " bytes), at least " + std::to_string(needed) + " are needed (model.context + 1)";
}

Result<TokenLayout> inspect_token_file(const FileToInspect& file) {
  if (file.bytes.empty()) {
    return refuse(file, "is empty: " + found_and_needed(0, 0, file.tokens_needed));
  }
  TokenFormat format = file.requested;
  if (format == TokenFormat::kAuto) {
    const Result<TokenFormat> detected = detect(file);
    if (!detected) return detected.status();
    format = detected.value();
  }
  switch (format) {
    case TokenFormat::kTokens16:
      return raw_layout(file, format, 2);
    case TokenFormat::kTokens32:
      return raw_layout(file, format, 4);
    case TokenFormat::kLlmc:
      return llmc_layout(file);
    case TokenFormat::kText:
    case TokenFormat::kAuto:
      break;
  }
  return TokenLayout{TokenFormat::kText, 1, 0, static_cast<std::int64_t>(file.bytes.size())};
}

}  // namespace headrace::data::detail
