// BatchLoader: the inputs and targets of any step, checked, into buffers of the caller.
//
// What it is for: one call per step by whoever owns the data; a token outside the vocabulary is
// found here, before any stage has seen the batch.
// What it does not do: move data to devices, keep a position (load any step in any order), or
// normalise a loss (it counts the supervised tokens).
// Thread rule: distinct loaders are independent, also over one corpus; a shared loader needs
// outside locking.
#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/status.hpp"
#include "runtime/data/corpus.hpp"
#include "runtime/data/order.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace headrace::data {

// What a target holds that carries no loss.
inline constexpr std::int32_t kIgnoredTarget = -1;

struct BatchOptions {
  std::int64_t batch_size = 0;       // samples per step, over all replicas
  std::int64_t microbatch_size = 0;  // divides batch_size
  std::uint64_t order_seed = 1;
  OrderKind order = OrderKind::kShuffled;
};

// Host buffers of the caller, row-major [batch_size, context]; microbatch m is rows
// [m * microbatch_size, (m + 1) * microbatch_size).
struct Batch {
  std::span<std::int32_t> inputs;
  std::span<std::int32_t> targets;  // kIgnoredTarget where the corpus has its ignore token
};

struct BatchInfo {
  std::int64_t supervised_tokens = 0;  // targets that are not ignored; may be 0
  std::int64_t epoch = 0;              // of the step's first sample, 0 for the first pass
  std::int64_t position = 0;           // of the step's first sample within its epoch
  // Per microbatch of the batch; owned by the loader, valid until its next load.
  std::span<const std::int64_t> microbatch_supervised_tokens;
};

class BatchLoader {
 public:
  // kConfig when the sizes are not positive or microbatch_size does not divide batch_size.
  [[nodiscard]] static Result<BatchLoader> create(Corpus corpus, const BatchOptions& options);

  // Overwrites the whole batch. Allocates only to describe a failure. After a failure the buffers
  // hold nothing meaningful.
  // kData when a token is outside the vocabulary (file, token, byte, id, vocabulary size), or a
  // file shrank. The ignore token is accepted as a target; as an input only if it is inside the
  // vocabulary. Samples share their border tokens, so an ignore token outside the vocabulary can
  // only be the last token that any sample covers.
  // @pre step >= 1; both buffers hold batch_size * context elements
  [[nodiscard]] Result<BatchInfo> load(StepIndex step, const Batch& batch);

  [[nodiscard]] const Corpus& corpus() const { return corpus_; }
  [[nodiscard]] const BatchOptions& options() const { return options_; }
  [[nodiscard]] std::int64_t microbatch_count() const;  // per step
  [[nodiscard]] SequenceShape shape() const;
  // Which sample a row of a step holds.
  [[nodiscard]] std::int64_t sample_at(StepIndex step, std::int64_t row) const;

 private:
  BatchLoader(Corpus corpus, const BatchOptions& options);
  [[nodiscard]] Status load_row(std::int64_t sample, std::span<std::int32_t> inputs,
                                std::span<std::int32_t> targets, std::int64_t& supervised);
  [[nodiscard]] Status bad_token(std::int64_t token, std::uint32_t id, bool as_input) const;

  // Constant after construction.
  Corpus corpus_;
  BatchOptions options_;
  // Scratch of one load, sized at construction.
  std::vector<std::uint32_t> row_;
  std::vector<std::int64_t> microbatch_supervised_;
};

}  // namespace headrace::data
