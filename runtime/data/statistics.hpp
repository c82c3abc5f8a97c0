// Entropy of a text in nats per byte, from counts of bytes and of pairs of bytes.
//
// What it is for: a yardstick beside a loss: a model that ends above the bigram figure has learnt
// less than a table of neighbours.
// What it does not do: judge token shards, or correct for the bias of small samples (a text of few
// bytes has a bigram figure that is too low).
// Thread rule: free functions; safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/data/corpus.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace headrace::data {

struct ByteStatistics {
  std::int64_t bytes_counted = 0;
  std::int64_t bytes_total = 0;  // bytes_counted < bytes_total: only a prefix was read
  double unigram_nats = 0.0;     // -sum p(b) ln p(b) over the counted bytes
  double bigram_nats = 0.0;  // -sum p(a,b) ln p(b|a) over neighbours; 0 with fewer than two bytes
};

// One pass over the first `bytes_max` bytes.
[[nodiscard]] ByteStatistics byte_statistics(std::span<const std::byte> text,
                                             std::int64_t bytes_max);
// kUsage when the corpus holds tokens and not bytes; kData when its file shrank.
[[nodiscard]] Result<ByteStatistics> byte_statistics(const Corpus& corpus,
                                                     std::int64_t bytes_max = std::int64_t{1}
                                                                              << 28);

}  // namespace headrace::data
