#include "runtime/data/corpus.hpp"
#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <filesystem>

namespace headrace::data {
namespace {

CorpusOptions options_for(const std::string& path) {
  CorpusOptions options;
  options.path = path;
  options.context = 4;
  return options;
}

std::string text_of(const Corpus& corpus) {
  const auto bytes = corpus.token_storage();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("text folder: files follow each other in bytewise order of the relative path") {
  const TemporaryFolder folder;
  // '.' < '/' < '0' < 'B' < 'a' < 0xC3: not the order of creation, of a locale or of a tree walk.
  folder.write("a/x", "[a/x]");
  folder.write("a0", "[a0]");
  folder.write("B", "[B]");
  folder.write("a.txt", "[a.txt]");
  folder.write("\xC3\xA9", "[e]");
  folder.write("a/b/y", "[a/b/y]");
  const Result<Corpus> corpus = open_corpus(options_for(folder.path()));
  REQUIRE(corpus.is_ok());
  CHECK(corpus.value().format() == TokenFormat::kText);
  CHECK(text_of(corpus.value()) == "[B][a.txt][a/b/y][a/x][a0][e]");
  REQUIRE(corpus.value().documents().size() == 6);
  CHECK(corpus.value().documents()[2].path == folder.path("a/b/y"));
}

TEST_CASE("text folder: every token is located in its own file") {
  const TemporaryFolder folder;
  folder.write("1", "abc");
  folder.write("2", "d");
  folder.write("3", "efgh");
  const Result<Corpus> corpus = open_corpus(options_for(folder.path()));
  REQUIRE(corpus.is_ok());
  const std::string files = "11123333";
  const std::string places = "01200123";
  for (std::size_t i = 0; i < files.size(); ++i) {
    const TokenPlace place = corpus.value().locate(static_cast<std::int64_t>(i));
    CHECK(place.document->path == folder.path(files.substr(i, 1)));
    CHECK(place.byte_in_file == places[i] - '0');
    CHECK(place.token_in_file == places[i] - '0');
  }
}

TEST_CASE("text folder: hidden and empty and binary files and links are passed over and counted") {
  const TemporaryFolder folder;
  const TemporaryFolder outside;
  outside.write("outside.txt", "outside");
  folder.write("kept.txt", "kept text");
  folder.write(".hidden", "hidden");
  folder.write(".git/objects/a", "hidden below");
  folder.write("empty", "");
  folder.write("image", std::string("PNG\0\1\2", 6));
  folder.write("late_nul", std::string(4096, 'z') + std::string(1, '\0'));
  std::filesystem::create_symlink(outside.path("outside.txt"), folder.path("link"));
  std::filesystem::create_directory_symlink(outside.path(), folder.path("link_out"));
  std::filesystem::create_directory_symlink(folder.path(), folder.path("loop"));
  const Result<Corpus> corpus = open_corpus(options_for(folder.path()));
  REQUIRE(corpus.is_ok());
  CHECK(text_of(corpus.value()) == "kept text" + std::string(4096, 'z') + std::string(1, '\0'));
  CHECK(corpus.value().skipped().hidden == 2);
  CHECK(corpus.value().skipped().empty == 1);
  CHECK(corpus.value().skipped().binary == 1);
  CHECK(corpus.value().skipped().links == 3);
}

TEST_CASE("text folder: the folder itself may be a link") {
  const TemporaryFolder folder;
  folder.write("real/a", "some text");
  std::filesystem::create_directory_symlink(folder.path("real"), folder.path("link"));
  const Result<Corpus> corpus = open_corpus(options_for(folder.path("link")));
  REQUIRE(corpus.is_ok());
  CHECK(text_of(corpus.value()) == "some text");
}

TEST_CASE("case C74: a folder without text is refused with what it held") {
  const TemporaryFolder folder;
  folder.write("empty", "");
  folder.write("binary", std::string(100, '\0'));
  folder.write(".hidden", "hidden text");
  const Result<Corpus> corpus = open_corpus(options_for(folder.path()));
  REQUIRE_FALSE(corpus.is_ok());
  const std::string message = corpus.status().message();
  CAPTURE(message);
  CHECK(corpus.status().code() == StatusCode::kData);
  for (const std::string& part :
       {folder.path(), std::string("found 0 tokens"), std::string("at least 5"),
        std::string("0 text files"), std::string("1 hidden, 1 empty, 1 binary")}) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("case C74: a folder given as token shard is refused") {
  const TemporaryFolder folder;
  folder.write16("train.bin", counting_tokens(100, 64));
  for (const TokenFormat format :
       {TokenFormat::kTokens16, TokenFormat::kTokens32, TokenFormat::kLlmc}) {
    CorpusOptions options = options_for(folder.path());
    options.format = format;
    const Result<Corpus> corpus = open_corpus(options);
    REQUIRE_FALSE(corpus.is_ok());
    CHECK(corpus.status().message().find("is a folder") != std::string::npos);
    CHECK(corpus.status().message().find(folder.path()) != std::string::npos);
  }
}

TEST_CASE("text folder: one byte above the limit is refused") {
  const TemporaryFolder folder;
  folder.write("a", std::string(60, 'a'));
  folder.write("b", std::string(40, 'b'));
  CorpusOptions options = options_for(folder.path());
  options.folder_bytes_max = 100;
  CHECK(open_corpus(options).is_ok());
  options.folder_bytes_max = 99;
  const Result<Corpus> corpus = open_corpus(options);
  REQUIRE_FALSE(corpus.is_ok());
  CHECK(corpus.status().message().find("more than 99 bytes") != std::string::npos);
}

}  // namespace
}  // namespace headrace::data
