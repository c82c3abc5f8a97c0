#include "runtime/data/statistics.hpp"

#include "tests/data/temporary_folder.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <random>
#include <string>

namespace headrace::data {
namespace {

ByteStatistics statistics_of(const std::string& text, std::int64_t bytes_max = 1 << 20) {
  return byte_statistics(std::as_bytes(std::span(text.data(), text.size())), bytes_max);
}

// Straight from the definition: the mean of -ln p(b|a) over neighbours.
double bigram_by_definition(const std::string& text) {
  std::map<std::pair<char, char>, double> pairs;
  std::map<char, double> firsts;
  for (std::size_t i = 1; i < text.size(); ++i) {
    ++pairs[{text[i - 1], text[i]}];
    ++firsts[text[i - 1]];
  }
  double sum = 0.0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    sum -= std::log(pairs[{text[i - 1], text[i]}] / firsts[text[i - 1]]);
  }
  return sum / static_cast<double>(text.size() - 1);
}

double unigram_by_definition(const std::string& text) {
  std::map<char, double> counts;
  for (const char byte : text) ++counts[byte];
  double sum = 0.0;
  for (const char byte : text) sum -= std::log(counts[byte] / static_cast<double>(text.size()));
  return sum / static_cast<double>(text.size());
}

TEST_CASE("statistics: texts whose entropy is known by heart") {
  CHECK(statistics_of("aaaa").unigram_nats == 0.0);
  CHECK(statistics_of("aaaa").bigram_nats == 0.0);
  // a and b alternate: one bit each alone, none after the other.
  CHECK(statistics_of("abababab").unigram_nats == doctest::Approx(std::log(2.0)));
  CHECK(statistics_of("abababab").bigram_nats == doctest::Approx(0.0));
  // After a comes a, b, a, b; after b comes a.
  CHECK(statistics_of("aabaaba").bigram_nats == doctest::Approx(4.0 / 6.0 * std::log(2.0)));
}

TEST_CASE("statistics: agree with the definition on random text") {
  std::mt19937 random(4242);  // a fixed seed: the same text on every run
  std::string text;
  for (int i = 0; i < 5000; ++i) {
    text.push_back(static_cast<char>((random() % 16) * (random() % 16)));
  }
  const ByteStatistics result = statistics_of(text);
  CHECK(result.bigram_nats == doctest::Approx(bigram_by_definition(text)).epsilon(1e-10));
  CHECK(result.unigram_nats == doctest::Approx(unigram_by_definition(text)).epsilon(1e-10));
  CHECK(result.bigram_nats < result.unigram_nats);
}

TEST_CASE("statistics: a prefix is counted and said to be one") {
  const ByteStatistics prefix = statistics_of("abababab" + std::string(100, 'z'), 8);
  CHECK(prefix.bytes_counted == 8);
  CHECK(prefix.bytes_total == 108);
  CHECK(prefix.unigram_nats == doctest::Approx(std::log(2.0)));
}

TEST_CASE("statistics: short texts have no neighbours") {
  CHECK(statistics_of("").bytes_counted == 0);
  CHECK(statistics_of("a").bytes_counted == 1);
  CHECK(statistics_of("a").bigram_nats == 0.0);
  CHECK(statistics_of("abc", 0).bytes_counted == 0);
}

TEST_CASE("statistics: of a corpus of text but not of tokens") {
  const TemporaryFolder folder;
  CorpusOptions options;
  options.path = folder.write("a.txt", "abababab");
  options.context = 2;
  const Result<Corpus> text = open_corpus(options);
  REQUIRE(text.is_ok());
  const Result<ByteStatistics> result = byte_statistics(text.value());
  REQUIRE(result.is_ok());
  CHECK(result.value().bytes_total == 8);
  CHECK(result.value().unigram_nats == doctest::Approx(std::log(2.0)));
  options.path = folder.write16("a.bin", counting_tokens(10, 64));
  const Result<Corpus> tokens = open_corpus(options);
  REQUIRE(tokens.is_ok());
  CHECK(byte_statistics(tokens.value()).status().code() == StatusCode::kUsage);
}

}  // namespace
}  // namespace headrace::data
