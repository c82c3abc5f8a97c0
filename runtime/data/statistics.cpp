#include "runtime/data/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headrace::data {
namespace {

constexpr std::size_t kByteValues = 256;

using Counts = std::vector<std::int64_t>;

// Sum of c ln c: entropies are differences of these.
double weighted_log_sum(std::span<const std::int64_t> counts) {
  double sum = 0.0;
  for (const std::int64_t count : counts) {
    if (count > 0) sum += static_cast<double>(count) * std::log(static_cast<double>(count));
  }
  return sum;
}

Counts count_pairs(std::span<const std::byte> text) {
  Counts pairs(kByteValues * kByteValues, 0);
  for (std::size_t i = 1; i < text.size(); ++i) {
    ++pairs[std::to_integer<std::size_t>(text[i - 1]) * kByteValues +
            std::to_integer<std::size_t>(text[i])];
  }
  return pairs;
}

// How often each byte comes first in a pair: every byte of the text but the last one.
Counts first_of_pair(const Counts& pairs) {
  Counts singles(kByteValues, 0);
  for (std::size_t i = 0; i < pairs.size(); ++i) singles[i / kByteValues] += pairs[i];
  return singles;
}

}  // namespace

ByteStatistics byte_statistics(std::span<const std::byte> text, std::int64_t bytes_max) {
  ByteStatistics result;
  result.bytes_total = static_cast<std::int64_t>(text.size());
  result.bytes_counted = std::clamp(bytes_max, std::int64_t{0}, result.bytes_total);
  if (result.bytes_counted == 0) return result;
  text = text.first(static_cast<std::size_t>(result.bytes_counted));

  const Counts pairs = count_pairs(text);
  Counts singles = first_of_pair(pairs);
  if (text.size() > 1) {
    const auto pair_count = static_cast<double>(text.size() - 1);
    result.bigram_nats = (weighted_log_sum(singles) - weighted_log_sum(pairs)) / pair_count;
  }
  ++singles[std::to_integer<std::size_t>(text.back())];
  const auto byte_count = static_cast<double>(text.size());
  result.unigram_nats = std::log(byte_count) - weighted_log_sum(singles) / byte_count;
  // Rounding may leave a few ulp below zero where the text is predictable.
  result.unigram_nats = std::max(result.unigram_nats, 0.0);
  result.bigram_nats = std::max(result.bigram_nats, 0.0);
  return result;
}

Result<ByteStatistics> byte_statistics(const Corpus& corpus, std::int64_t bytes_max) {
  if (corpus.format() != TokenFormat::kText) {
    return Status{StatusCode::kUsage, "data '" + corpus.path() + "' holds " +
                                          std::string(to_string(corpus.format())) +
                                          ", and the entropy per byte needs text"};
  }
  HEADRACE_RETURN_IF_ERROR(corpus.check_readable());
  return byte_statistics(corpus.token_storage(), bytes_max);
}

}  // namespace headrace::data
