#include "runtime/data/corpus.hpp"

#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>

namespace headrace::data {
namespace {

CorpusOptions options_for(const std::string& path, TokenFormat format = TokenFormat::kAuto) {
  CorpusOptions options;
  options.path = path;
  options.format = format;
  options.vocabulary_size = 65536;
  options.context = 16;
  return options;
}

std::vector<std::uint32_t> all_tokens(const Corpus& corpus) {
  std::vector<std::uint32_t> tokens(static_cast<std::size_t>(corpus.token_count()));
  corpus.read(0, tokens);
  return tokens;
}

std::string refusal(const CorpusOptions& options, StatusCode code = StatusCode::kData) {
  const Result<Corpus> corpus = open_corpus(options);
  REQUIRE_FALSE(corpus.is_ok());
  CHECK(corpus.status().code() == code);
  return corpus.status().message();
}

void check_contains(const std::string& message, std::initializer_list<const char*> parts) {
  CAPTURE(message);
  for (const char* part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("corpus: format names round trip and others are refused") {
  for (const TokenFormat format : {TokenFormat::kAuto, TokenFormat::kText, TokenFormat::kTokens16,
                                   TokenFormat::kTokens32, TokenFormat::kLlmc}) {
    const Result<TokenFormat> parsed = parse_token_format(to_string(format));
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value() == format);
  }
  CHECK(parse_token_format("Text").status().code() == StatusCode::kConfig);
  check_contains(parse_token_format("u16").status().message(), {"'u16'", "tokens16", "llmc"});
}

TEST_CASE("corpus: shards of every format round trip with the extreme ids") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> narrow = {0,  1,  255, 256, 50256, 65535, 7,  8,  9,
                                             10, 11, 12,  13,  14,    15,    16, 17, 18};
  const std::vector<std::uint32_t> wide = {0,  1,  65535, 65536, 128000, 4294967295U, 7,  8,  9,
                                           10, 11, 12,    13,    14,     15,          16, 17, 18};
  const std::vector<std::uint32_t> narrow_ids(narrow.begin(), narrow.end());
  struct Case {
    std::string path;
    TokenFormat format;
    std::vector<std::uint32_t> ids;
    std::int64_t first_byte;
  };
  const std::vector<Case> cases = {
      {folder.write16("a.bin", narrow), TokenFormat::kTokens16, narrow_ids, 0},
      {folder.write16("a.u16", narrow), TokenFormat::kTokens16, narrow_ids, 0},
      {folder.write32("a.u32", wide), TokenFormat::kTokens32, wide, 0},
      {folder.write_llmc("gpt2.bin", {20240520, 1, 18}, bytes_of(narrow)), TokenFormat::kLlmc,
       narrow_ids, 1024},
      {folder.write_llmc("llama3.bin", {20240801, 7, 18}, bytes_of(wide)), TokenFormat::kLlmc, wide,
       1024},
  };
  for (const Case& item : cases) {
    CAPTURE(item.path);
    for (const TokenFormat format : {TokenFormat::kAuto, item.format}) {
      const Result<Corpus> corpus = open_corpus(options_for(item.path, format));
      REQUIRE(corpus.is_ok());
      CHECK(corpus.value().format() == item.format);
      CHECK(all_tokens(corpus.value()) == item.ids);
      CHECK(corpus.value().locate(3).byte_in_file ==
            item.first_byte + 3 * corpus.value().token_bytes());
      CHECK(corpus.value().locate(3).token_in_file == 3);
      CHECK(corpus.value().locate(3).document->path == item.path);
    }
  }
}

TEST_CASE("corpus: a text file is its bytes") {
  const TemporaryFolder folder;
  const std::string text = "caf\xC3\xA9 by the mill race\n";
  const Result<Corpus> corpus = open_corpus(options_for(folder.write("a.txt", text)));
  REQUIRE(corpus.is_ok());
  CHECK(corpus.value().format() == TokenFormat::kText);
  CHECK(corpus.value().token_count() == static_cast<std::int64_t>(text.size()));
  CHECK(all_tokens(corpus.value())[3] == 0xC3);
  std::vector<std::uint32_t> middle(2);
  corpus.value().read(5, middle);
  CHECK(middle == std::vector<std::uint32_t>{' ', 'b'});
}

TEST_CASE("corpus: the sample count follows from tokens and context") {
  const TemporaryFolder folder;
  for (std::size_t context = 1; context <= 6; ++context) {
    for (std::size_t tokens = context + 1; tokens <= 40; ++tokens) {
      // Counted by cutting: a sample needs one token past its end, which the next one shares.
      std::int64_t expected = 0;
      for (std::size_t end = context; end < tokens; end += context) ++expected;
      CorpusOptions options = options_for(folder.write("t", std::string(tokens, 'a')));
      options.context = static_cast<std::int64_t>(context);
      const Result<Corpus> corpus = open_corpus(options);
      REQUIRE(corpus.is_ok());
      CHECK(corpus.value().sample_count() == expected);
    }
  }
}

TEST_CASE("case C74: an empty file is refused in every format") {
  const TemporaryFolder folder;
  const std::string path = folder.write("empty.bin", "");
  for (const TokenFormat format : {TokenFormat::kAuto, TokenFormat::kText, TokenFormat::kTokens16,
                                   TokenFormat::kTokens32, TokenFormat::kLlmc}) {
    check_contains(refusal(options_for(path, format)),
                   {path.c_str(), "empty", "found 0 tokens", "at least 17"});
  }
}

TEST_CASE("case C74: a file with a header only is refused with zero tokens found") {
  const TemporaryFolder folder;
  const std::string path = folder.write_llmc("header.bin", {20240520, 1, 0}, "");
  check_contains(refusal(options_for(path)), {path.c_str(), "found 0 tokens", "1024 bytes", "17"});
}

TEST_CASE("case C74: as many tokens as the context are one too few") {
  const TemporaryFolder folder;
  const auto tokens = counting_tokens(16, 64);
  const std::vector<std::uint32_t> wide(tokens.begin(), tokens.end());
  const std::vector<std::string> paths = {
      folder.write("a.txt", "sixteen bytes ab"), folder.write16("a.bin", tokens),
      folder.write32("a.u32", wide),
      folder.write_llmc("l.bin", {20240520, 1, 16}, bytes_of(tokens))};
  for (const std::string& path : paths) {
    check_contains(refusal(options_for(path)),
                   {path.c_str(), "too short", "found 16 tokens", "at least 17"});
  }
}

TEST_CASE("case C74: one token more than the context is exactly one sample") {
  const TemporaryFolder folder;
  const auto tokens = counting_tokens(17, 64);
  const std::vector<std::uint32_t> wide(tokens.begin(), tokens.end());
  const std::vector<std::string> paths = {
      folder.write("a.txt", "seventeen bytes a"), folder.write16("a.bin", tokens),
      folder.write32("a.u32", wide),
      folder.write_llmc("l.bin", {20240520, 1, 17}, bytes_of(tokens))};
  for (const std::string& path : paths) {
    CAPTURE(path);
    const Result<Corpus> corpus = open_corpus(options_for(path));
    REQUIRE(corpus.is_ok());
    CHECK(corpus.value().sample_count() == 1);
  }
}

TEST_CASE("case C74: left over bytes are refused with their number") {
  const TemporaryFolder folder;
  const std::string odd = folder.write("odd.bin", bytes_of(counting_tokens(40, 64)) + "x");
  check_contains(refusal(options_for(odd)), {odd.c_str(), "16-bit", "1 bytes are left over",
                                             "found 40 tokens (81 bytes)", "17"});
  const std::string wide = folder.write("odd.u32", std::string(4 * 20 + 3, '\1'));
  check_contains(refusal(options_for(wide)),
                 {"32-bit", "3 bytes are left over", "found 20 tokens"});
}

TEST_CASE("case C74: a file without read permission is refused with the reason") {
  const TemporaryFolder folder;
  const std::string path = folder.write("secret.txt", std::string(100, 'a'));
  std::filesystem::permissions(path, std::filesystem::perms::none);
  const std::string below = folder.write("docs/sub/a.txt", std::string(100, 'a'));
  const std::string closed = folder.path("docs/sub");
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  {
    const UnprivilegedUser user;
    if (user.active()) {
      check_contains(refusal(options_for(path)), {path.c_str(), "Permission denied"});
      check_contains(refusal(options_for(folder.path())), {"Permission denied"});
      check_contains(refusal(options_for(folder.path("docs"))),
                     {closed.c_str(), "Permission denied"});
    } else {
      MESSAGE("root may not change its user here, so permissions were not tested");
    }
  }
  std::filesystem::permissions(closed, std::filesystem::perms::owner_all);
}

TEST_CASE("case C74: text given as tokens is refused by name of the format") {
  const TemporaryFolder folder;
  std::string text;
  while (text.size() < 4096) text += "The wheel turns, the water falls; na\xC3\xAFve grain. ";
  text.resize(4096);
  const std::string path = folder.write("corpus.bin", text);
  for (const TokenFormat format :
       {TokenFormat::kAuto, TokenFormat::kTokens16, TokenFormat::kTokens32}) {
    check_contains(refusal(options_for(path, format)), {path.c_str(), "is text", "data.format"});
  }
  check_contains(refusal(options_for(path, TokenFormat::kLlmc)),
                 {path.c_str(), "no llm.c shard", "20240520"});
  CHECK(open_corpus(options_for(path, TokenFormat::kText)).is_ok());
}

TEST_CASE("case C74: a shard of one repeated printable token is not taken for text") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> padding(200, 0x2020);
  CHECK(open_corpus(options_for(folder.write16("padding.bin", padding))).is_ok());
}

TEST_CASE("case C74: tokens without a telling name are not taken for text") {
  const TemporaryFolder folder;
  const std::string path = folder.write16("tokens", counting_tokens(100, 64));
  check_contains(refusal(options_for(path)), {path.c_str(), "NUL", "data.format"});
  CHECK(open_corpus(options_for(path, TokenFormat::kTokens16)).is_ok());
  CHECK(open_corpus(options_for(path, TokenFormat::kText)).is_ok());
}

TEST_CASE("case C74: a damaged shard header is refused with what it says") {
  const TemporaryFolder folder;
  const std::string payload = bytes_of(counting_tokens(40, 64));
  check_contains(refusal(options_for(folder.write_llmc("v.bin", {20240520, 2, 40}, payload))),
                 {"20240520", "version 2", "version 1 is expected"});
  check_contains(refusal(options_for(folder.write_llmc("m.bin", {20240520, 1, 41}, payload))),
                 {"promises 41 tokens", "80 bytes follow", "found 40 tokens"});
  check_contains(refusal(options_for(folder.write_llmc("l.bin", {20240520, 1, 39}, payload))),
                 {"promises 39 tokens", "80 bytes follow"});
  check_contains(refusal(options_for(folder.write_llmc("n.bin", {20240520, 1, -1}, payload))),
                 {"promises -1 tokens"});
  const std::string cut = folder.write_llmc("c.bin", {20240520, 1, 40}, "");
  std::filesystem::resize_file(cut, 1000);
  check_contains(refusal(options_for(cut)), {"ends inside its llm.c header", "1000 bytes"});
}

TEST_CASE("case C74: missing and special files are refused") {
  const TemporaryFolder folder;
  check_contains(refusal(options_for(folder.path("none.txt"))), {"none.txt", "No such file"});
  check_contains(refusal(options_for("/dev/zero")), {"/dev/zero", "device"});
  check_contains(refusal(options_for("")), {"path is empty"});
}

TEST_CASE("corpus: options out of range are a configuration error") {
  const TemporaryFolder folder;
  const std::string path = folder.write16("a.bin", counting_tokens(100, 64));
  CorpusOptions options = options_for(path);
  options.context = 0;
  check_contains(refusal(options, StatusCode::kConfig), {"model.context is 0"});
  options = options_for(path);
  options.vocabulary_size = 0;
  check_contains(refusal(options, StatusCode::kConfig), {"model.vocabulary is 0"});
  for (const std::int64_t ignore : {std::int64_t{-1}, std::int64_t{65536}}) {
    options = options_for(path);
    options.ignore_token = ignore;
    check_contains(refusal(options, StatusCode::kConfig), {"ignore token", "65535"});
  }
}

TEST_CASE("corpus: a negative ignore token is its bit pattern in 32 bits") {
  const TemporaryFolder folder;
  CorpusOptions options =
      options_for(folder.write32("a.u32", std::vector<std::uint32_t>(40, 4294967196U)));
  options.ignore_token = -100;
  const Result<Corpus> corpus = open_corpus(options);
  REQUIRE(corpus.is_ok());
  CHECK(corpus.value().ignore_id() == 4294967196U);
}

TEST_CASE("corpus: the identity follows the content and not the place") {
  const TemporaryFolder folder;
  const auto identity = [](const std::string& path, TokenFormat format = TokenFormat::kAuto) {
    const Result<Corpus> corpus = open_corpus(options_for(path, format));
    REQUIRE(corpus.is_ok());
    return corpus.value().identity();
  };
  const std::string text(100, 'a');
  const std::string original = identity(folder.write("a.txt", text));
  CHECK(original.size() == 64);
  CHECK(identity(folder.write("moved.txt", text)) == original);
  CHECK(identity(folder.write("b.txt", text + "a")) != original);
  CHECK(identity(folder.write("c.txt", std::string(99, 'a') + "b")) != original);
  CHECK(identity(folder.path("a.txt"), TokenFormat::kText) == original);

  const std::string in_folder = identity((folder.write("one/x/a.txt", text), folder.path("one")));
  CHECK(identity(folder.path("one/")) == in_folder);
  CHECK(identity((folder.write("two/x/a.txt", text), folder.path("two"))) == in_folder);
  CHECK(identity((folder.write("three/x/b.txt", text), folder.path("three"))) != in_folder);
  CHECK(in_folder != original);
  folder.write("four/a", text + "b");
  folder.write("four/b", "c" + text);
  folder.write("five/a", text);
  folder.write("five/b", "bc" + text);
  CHECK(identity(folder.path("four")) != identity(folder.path("five")));
}

TEST_CASE("corpus: copies share what they read and outlive the original") {
  const TemporaryFolder folder;
  std::optional<Corpus> copy;
  {
    const Result<Corpus> corpus =
        open_corpus(options_for(folder.write16("a.bin", counting_tokens(100, 64))));
    REQUIRE(corpus.is_ok());
    copy = corpus.value();
    CHECK(copy->token_storage().data() == corpus.value().token_storage().data());
  }
  CHECK(all_tokens(*copy)[65] == 1);
}

}  // namespace
}  // namespace headrace::data
