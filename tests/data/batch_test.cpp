#include "runtime/data/batch.hpp"

#include "tests/data/allocation_count.hpp"
#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>
#include <numeric>

namespace headrace::data {
namespace {

struct LoaderSetup {
  std::string path;
  std::int64_t vocabulary = 65536;
  std::int64_t context = 4;
  std::optional<std::int64_t> ignore_token = std::nullopt;
  std::int64_t batch_size = 1;
  std::int64_t microbatch_size = 1;
  OrderKind order = OrderKind::kSequential;
  std::uint64_t seed = 1;
};

Result<BatchLoader> make_loader(const LoaderSetup& setup) {
  CorpusOptions options;
  options.path = setup.path;
  options.vocabulary_size = setup.vocabulary;
  options.context = setup.context;
  options.ignore_token = setup.ignore_token;
  const Result<Corpus> corpus = open_corpus(options);
  if (!corpus) return corpus.status();
  return BatchLoader::create(corpus.value(),
                             {setup.batch_size, setup.microbatch_size, setup.seed, setup.order});
}

// A loader with buffers of its own.
struct Reader {
  explicit Reader(const LoaderSetup& setup)
      : loader(make_loader(setup)),
        inputs(static_cast<std::size_t>(setup.batch_size * setup.context), -7),
        targets(inputs.size(), -7) {
    REQUIRE_MESSAGE(loader.is_ok(), loader.status().message());
  }
  Result<BatchInfo> load(std::int64_t step) {
    return loader->load(StepIndex(step), {inputs, targets});
  }

  Result<BatchLoader> loader;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;
};

using Ids = std::vector<std::int32_t>;

std::string failure(const Result<BatchInfo>& result) {
  REQUIRE_FALSE(result.is_ok());
  CHECK(result.status().code() == StatusCode::kData);
  return result.status().message();
}

void check_contains(const std::string& message, std::initializer_list<std::string> parts) {
  CAPTURE(message);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

TEST_CASE("batch: targets are the inputs shifted by one") {
  const TemporaryFolder folder;
  Reader reader({.path = folder.write16("a.bin", counting_tokens(13, 100)), .batch_size = 3});
  const Result<BatchInfo> info = reader.load(1);
  REQUIRE(info.is_ok());
  CHECK(reader.inputs == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(reader.targets == Ids{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(info.value().supervised_tokens == 12);
}

TEST_CASE("case C74: the single sample of a file one longer than the context is read whole") {
  const TemporaryFolder folder;
  Reader reader({.path = folder.write("a.txt", "mills"), .batch_size = 2});
  REQUIRE(reader.load(3).is_ok());
  CHECK(reader.inputs == Ids{'m', 'i', 'l', 'l', 'm', 'i', 'l', 'l'});
  CHECK(reader.targets == Ids{'i', 'l', 'l', 's', 'i', 'l', 'l', 's'});
}

TEST_CASE("batch: rows follow the shuffled order and steps may be loaded in any order") {
  const TemporaryFolder folder;
  const LoaderSetup setup{.path = folder.write16("a.bin", counting_tokens(4 * 11 + 1, 100)),
                          .batch_size = 3,
                          .order = OrderKind::kShuffled,
                          .seed = 77};
  Reader forwards(setup);
  Reader backwards(setup);
  std::map<std::int64_t, Ids> seen;
  for (std::int64_t step = 1; step <= 20; ++step) {
    const Result<BatchInfo> info = forwards.load(step);
    REQUIRE(info.is_ok());
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::int64_t q = (step - 1) * 3 + row;
      const std::int64_t sample = EpochOrder(77, q / 11, 11).sample_at(q % 11);
      CHECK(forwards.loader->sample_at(StepIndex(step), row) == sample);
      CHECK(forwards.inputs[static_cast<std::size_t>(row * 4)] == sample * 4);
    }
    CHECK(info.value().epoch == (step - 1) * 3 / 11);
    CHECK(info.value().position == (step - 1) * 3 % 11);
    seen[step] = forwards.inputs;
  }
  for (std::int64_t step = 20; step >= 1; --step) {
    REQUIRE(backwards.load(step).is_ok());
    CHECK(backwards.inputs == seen[step]);
  }
}

TEST_CASE("case C78: a loader counts epochs and uses each sample once in each") {
  const TemporaryFolder folder;
  Reader reader({.path = folder.write16("a.bin", counting_tokens(40 * 4 + 1, 200)),
                 .batch_size = 4,
                 .order = OrderKind::kShuffled});
  REQUIRE(reader.loader->corpus().sample_count() == 40);
  std::map<std::int64_t, std::map<std::int32_t, int>> uses;
  for (std::int64_t step = 1; step <= 35; ++step) {
    const Result<BatchInfo> info = reader.load(step);
    REQUIRE(info.is_ok());
    CHECK(info.value().epoch == (step - 1) / 10);
    CHECK(info.value().epoch == epoch_of_step(StepIndex(step), reader.loader->shape()));
    for (std::size_t row = 0; row < 4; ++row) ++uses[info.value().epoch][reader.inputs[row * 4]];
  }
  REQUIRE(uses.size() == 4);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    CHECK(uses[epoch].size() == (epoch < 3 ? 40U : 20U));
    for (const auto& [sample, count] : uses[epoch]) CHECK(count == 1);
  }
}

TEST_CASE("case C78: a batch larger than the data goes on into later epochs") {
  const TemporaryFolder folder;
  Reader reader({.path = folder.write16("a.bin", counting_tokens(13, 100)),
                 .batch_size = 10,
                 .microbatch_size = 5,
                 .order = OrderKind::kShuffled});
  std::map<std::int32_t, int> uses;
  for (std::int64_t step = 1; step <= 3; ++step) {
    const Result<BatchInfo> info = reader.load(step);
    REQUIRE(info.is_ok());
    CHECK(info.value().epoch == (step - 1) * 10 / 3);
    for (std::size_t row = 0; row < 10; ++row) ++uses[reader.inputs[row * 4]];
  }
  CHECK(uses == std::map<std::int32_t, int>{{0, 10}, {4, 10}, {8, 10}});
}

TEST_CASE("case C75: a token equal to the vocabulary size is refused with its place") {
  const TemporaryFolder folder;
  auto tokens = counting_tokens(2001, 64);
  tokens[1000] = 64;
  const std::string path = folder.write16("a.bin", tokens);
  Reader reader({.path = path, .vocabulary = 64, .context = 16});
  for (std::int64_t step = 1; step <= 62; ++step) CHECK(reader.load(step).is_ok());
  // Sample 62 covers tokens 992 to 1008.
  check_contains(failure(reader.load(63)),
                 {path, "token 1000", "byte 2000", "id 64,", "vocabulary of 64", "as an input"});
  CHECK(reader.load(64).is_ok());
}

TEST_CASE("case C75: a bad token as a target only is refused") {
  const TemporaryFolder folder;
  auto tokens = counting_tokens(17, 64);
  tokens[16] = 64;
  const std::string path = folder.write16("a.bin", tokens);
  Reader reader({.path = path, .vocabulary = 64, .context = 16});
  check_contains(failure(reader.load(1)),
                 {path, "token 16 ", "byte 32", "id 64,", "vocabulary of 64", "as a target"});
}

TEST_CASE("case C75: a bad token as an input only is refused") {
  const TemporaryFolder folder;
  auto tokens = counting_tokens(17, 64);
  tokens[0] = 64;
  const std::string path = folder.write16("a.bin", tokens);
  Reader reader({.path = path, .vocabulary = 64, .context = 16});
  check_contains(failure(reader.load(1)),
                 {path, "token 0 ", "byte 0)", "id 64,", "vocabulary of 64", "as an input"});
}

TEST_CASE("case C75: a bad token is found in every format with its byte in the file") {
  const TemporaryFolder folder;
  auto tokens = counting_tokens(2001, 64);
  tokens[1000] = 65535;
  std::vector<std::uint32_t> wide(tokens.begin(), tokens.end());
  Reader narrow({.path = folder.write16("a.bin", tokens), .vocabulary = 64, .context = 16});
  check_contains(failure(narrow.load(63)), {"token 1000", "byte 2000", "id 65535"});
  Reader shard({.path = folder.write_llmc("l.bin", {20240520, 1, 2001}, bytes_of(tokens)),
                .vocabulary = 64,
                .context = 16});
  check_contains(failure(shard.load(63)), {"l.bin", "token 1000", "byte 3024", "id 65535"});
  // What a signed -1 leaves in 32 bits must not come back as a negative id.
  wide[1000] = 4294967295U;
  Reader wide_reader({.path = folder.write32("a.u32", wide), .vocabulary = 64, .context = 16});
  check_contains(failure(wide_reader.load(63)), {"token 1000", "byte 4000", "id 4294967295"});
  Reader large_vocabulary({.path = folder.path("a.u32"), .vocabulary = 2147483647, .context = 16});
  check_contains(failure(large_vocabulary.load(63)), {"id 4294967295"});
  CHECK(large_vocabulary.load(62).is_ok());
}

TEST_CASE("case C75: a byte outside a small vocabulary is located in its file of the folder") {
  const TemporaryFolder folder;
  folder.write("1.txt", std::string(40, '\x05'));
  folder.write("2.txt", std::string(7, '\x05') + "\xC3" + std::string(40, '\x05'));
  Reader reader({.path = folder.path(), .vocabulary = 128, .context = 86});
  check_contains(failure(reader.load(1)),
                 {folder.path("2.txt"), "token 7 ", "byte 7)", "id 195", "vocabulary of 128"});
}

TEST_CASE("case C75: the ignore token outside the vocabulary is accepted as a target only") {
  const TemporaryFolder folder;
  auto tokens = counting_tokens(9, 64);
  tokens[8] = 65535;
  Reader last({.path = folder.write16("last.bin", tokens),
               .vocabulary = 64,
               .ignore_token = 65535,
               .batch_size = 2});
  const Result<BatchInfo> info = last.load(1);
  REQUIRE(info.is_ok());
  CHECK(last.inputs == Ids{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(last.targets == Ids{1, 2, 3, 4, 5, 6, 7, kIgnoredTarget});
  CHECK(info.value().supervised_tokens == 7);
  const auto parts = info.value().microbatch_supervised_tokens;
  CHECK(std::vector<std::int64_t>(parts.begin(), parts.end()) == std::vector<std::int64_t>{4, 3});

  // Token 4 is the last target of sample 0 and the first input of sample 1.
  tokens[4] = 65535;
  Reader shared(
      {.path = folder.write16("shared.bin", tokens), .vocabulary = 64, .ignore_token = 65535});
  CHECK(shared.load(1).is_ok());
  check_contains(failure(shared.load(2)), {"token 4 ", "id 65535", "ignore token"});
  // Without an ignore token it is an error as a target too.
  Reader none({.path = folder.path("last.bin"), .vocabulary = 64});
  check_contains(failure(none.load(2)), {"token 8 ", "id 65535", "as a target"});
}

TEST_CASE("batch: an ignore token inside the vocabulary stays an input") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> tokens = {3, 0, 0, 5, 6, 0, 0, 0, 0};
  Reader reader({.path = folder.write16("a.bin", tokens),
                 .vocabulary = 64,
                 .ignore_token = 0,
                 .batch_size = 2,
                 .microbatch_size = 2});
  const Result<BatchInfo> info = reader.load(1);
  REQUIRE(info.is_ok());
  CHECK(reader.inputs == Ids{3, 0, 0, 5, 6, 0, 0, 0});
  CHECK(reader.targets == Ids{-1, -1, 5, 6, -1, -1, -1, -1});
  CHECK(info.value().supervised_tokens == 2);
}

TEST_CASE("batch: supervised tokens per microbatch do not depend on the cut") {
  const TemporaryFolder folder;
  const auto path = folder.write16("a.bin", counting_tokens(8 * 5 + 1, 7));
  for (const std::int64_t microbatch_size : {1, 2, 4, 8}) {
    Reader reader({.path = path,
                   .vocabulary = 7,
                   .context = 5,
                   .ignore_token = 3,
                   .batch_size = 8,
                   .microbatch_size = microbatch_size});
    const Result<BatchInfo> info = reader.load(1);
    REQUIRE(info.is_ok());
    const auto parts = info.value().microbatch_supervised_tokens;
    REQUIRE(static_cast<std::int64_t>(parts.size()) == 8 / microbatch_size);
    const auto per_part = static_cast<std::ptrdiff_t>(microbatch_size * 5);
    for (std::size_t m = 0; m < parts.size(); ++m) {
      const auto begin = reader.targets.begin() + static_cast<std::ptrdiff_t>(m) * per_part;
      CHECK(parts[m] == per_part - std::count(begin, begin + per_part, kIgnoredTarget));
    }
    CHECK(info.value().supervised_tokens ==
          std::accumulate(parts.begin(), parts.end(), std::int64_t{0}));
    CHECK(info.value().supervised_tokens == 40 - 6);  // 3, 10, 17, 24, 31 and 38 are ignored
  }
}

TEST_CASE("batch: supervised tokens are counted anew for each load") {
  const TemporaryFolder folder;
  const std::vector<std::uint16_t> tokens = {1, 2, 3, 9, 5, 9, 9, 8, 7};
  Reader reader({.path = folder.write16("a.bin", tokens), .ignore_token = 9});
  for (const std::int64_t step : {1, 2, 1, 2}) {
    const Result<BatchInfo> info = reader.load(step);
    REQUIRE(info.is_ok());
    const std::int64_t expected = step == 1 ? 3 : 2;
    CHECK(info.value().supervised_tokens == expected);
    CHECK(info.value().microbatch_supervised_tokens[0] == expected);
  }
}

TEST_CASE("batch: sizes that do not divide are a configuration error") {
  const TemporaryFolder folder;
  const auto path = folder.write16("a.bin", counting_tokens(100, 64));
  using Sizes = std::pair<std::int64_t, std::int64_t>;
  for (const auto& [size, part] : {Sizes{10, 4}, Sizes{0, 1}, Sizes{4, 0}, Sizes{-4, -2}}) {
    const Result<BatchLoader> loader =
        make_loader({.path = path, .batch_size = size, .microbatch_size = part});
    REQUIRE_FALSE(loader.is_ok());
    CHECK(loader.status().code() == StatusCode::kConfig);
    check_contains(loader.status().message(), {std::to_string(size), std::to_string(part)});
  }
}

TEST_CASE("batch: loading does not allocate") {
  const TemporaryFolder folder;
  Reader reader({.path = folder.write16("a.bin", counting_tokens(1001, 64)),
                 .ignore_token = 5,
                 .batch_size = 8,
                 .microbatch_size = 2,
                 .order = OrderKind::kShuffled});
  const std::int64_t before = allocation_count();
  bool all_loaded = true;
  for (std::int64_t step = 1; step <= 100; ++step) all_loaded &= reader.load(step).is_ok();
  CHECK(allocation_count() - before == 0);
  CHECK(all_loaded);
  ::operator delete(::operator new(1));  // the counter counts: a plain call is never left out
  CHECK(allocation_count() - before > 0);
}

TEST_CASE("batch: a file that shrank is an error and not a signal") {
  const TemporaryFolder folder;
  const std::string path = folder.write16("a.bin", counting_tokens(100000, 64));
  Reader reader({.path = path, .context = 1000});
  REQUIRE(reader.load(90).is_ok());
  std::filesystem::resize_file(path, 1000);
  check_contains(failure(reader.load(90)), {path, "shrank", "200000", "1000 now"});
}

TEST_CASE("batch: loaders over one corpus are independent") {
  const TemporaryFolder folder;
  const LoaderSetup setup{.path = folder.write16("a.bin", counting_tokens(41, 64)),
                          .batch_size = 2,
                          .microbatch_size = 1};
  Reader first(setup);
  Result<BatchLoader> second = BatchLoader::create(first.loader->corpus(), first.loader->options());
  REQUIRE(second.is_ok());
  const Result<BatchInfo> info = first.load(1);
  REQUIRE(info.is_ok());
  std::vector<std::int32_t> inputs(8);
  std::vector<std::int32_t> targets(8);
  REQUIRE(second->load(StepIndex(3), {inputs, targets}).is_ok());
  CHECK(first.inputs == Ids{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(inputs == Ids{16, 17, 18, 19, 20, 21, 22, 23});
  CHECK(info.value().microbatch_supervised_tokens[1] == 4);
}

}  // namespace
}  // namespace headrace::data
