#include "runtime/data/batch.hpp"
#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <fcntl.h>
#include <fstream>
#include <unistd.h>

namespace headrace::data {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;
constexpr std::int64_t kFileBytes = 5 * kGiB;
constexpr std::int64_t kTokensAt = 4 * kGiB + kGiB / 2;

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

// A hole of 5 GiB with `content` at 4.5 GiB: it takes a few KiB on disk.
std::string write_sparse(const TemporaryFolder& folder, const char* name,
                         const std::string& content) {
  std::string path = folder.path(name);
  const int file = ::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  REQUIRE(file >= 0);
  REQUIRE(::ftruncate(file, kFileBytes) == 0);
  const auto size = static_cast<ssize_t>(content.size());
  REQUIRE(::pwrite(file, content.data(), content.size(), kTokensAt) == size);
  ::close(file);
  return path;
}

struct LargeCase {
  const char* name;
  std::string content;
  std::int64_t token_bytes;
};

void check_large(const TemporaryFolder& folder, const LargeCase& item) {
  CAPTURE(item.name);
  CorpusOptions options;
  options.path = write_sparse(folder, item.name, item.content);
  options.format = item.token_bytes == 1 ? TokenFormat::kText : TokenFormat::kAuto;
  options.context = 16;
  const std::int64_t before = resident_bytes();
  const Result<Corpus> corpus = open_corpus(options);
  REQUIRE(corpus.is_ok());
  const std::int64_t tokens = kFileBytes / item.token_bytes;
  CHECK(corpus.value().token_count() == tokens);
  CHECK(corpus.value().sample_count() == (tokens - 1) / 16);
  CHECK(corpus.value().identity().size() == 64);

  Result<BatchLoader> loader =
      BatchLoader::create(corpus.value(), {1, 1, 1, OrderKind::kSequential});
  REQUIRE(loader.is_ok());
  std::vector<std::int32_t> inputs(16);
  std::vector<std::int32_t> targets(16);
  const std::int64_t sample = kTokensAt / item.token_bytes / 16;
  REQUIRE(loader->load(StepIndex(sample + 1), {inputs, targets}).is_ok());
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(inputs[i] == static_cast<std::int32_t>(i + 1));
    CHECK(targets[i] == static_cast<std::int32_t>(i + 2));
  }
  REQUIRE(loader->load(StepIndex(sample), {inputs, targets}).is_ok());
  CHECK(targets[15] == 1);
  REQUIRE(loader->load(StepIndex(corpus.value().sample_count()), {inputs, targets}).is_ok());
  CHECK(corpus.value().locate(tokens - 1).byte_in_file == kFileBytes - item.token_bytes);
  CHECK(resident_bytes() - before < 32 * (std::int64_t{1} << 20));
}

TEST_CASE("case C77: tokens beyond 4 GiB are read from the right place in little memory") {
  const TemporaryFolder folder;
  std::string bytes;
  std::vector<std::uint16_t> narrow;
  std::vector<std::uint32_t> wide;
  for (std::uint16_t id = 1; id <= 17; ++id) {
    bytes.push_back(static_cast<char>(id));
    narrow.push_back(id);
    wide.push_back(id);
  }
  check_large(folder, {"large.txt", bytes, 1});
  check_large(folder, {"large.bin", bytes_of(narrow), 2});
  check_large(folder, {"large.u32", bytes_of(wide), 4});
}

TEST_CASE("case C75: a bad token beyond 4 GiB is reported with its place") {
  const TemporaryFolder folder;
  CorpusOptions options;
  options.path = write_sparse(folder, "large.bin", std::string("\xFF\xFF", 2));
  options.vocabulary_size = 50257;
  options.context = 16;
  const Result<Corpus> corpus = open_corpus(options);
  REQUIRE(corpus.is_ok());
  Result<BatchLoader> loader =
      BatchLoader::create(corpus.value(), {1, 1, 1, OrderKind::kSequential});
  REQUIRE(loader.is_ok());
  std::vector<std::int32_t> inputs(16);
  std::vector<std::int32_t> targets(16);
  const Result<BatchInfo> info = loader->load(StepIndex(kTokensAt / 32 + 1), {inputs, targets});
  REQUIRE_FALSE(info.is_ok());
  CHECK(info.status().message().find("token 2415919104 (byte 4831838208)") != std::string::npos);
}

}  // namespace
}  // namespace headrace::data
