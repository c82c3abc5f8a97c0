#include "runtime/data/batch.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace headrace::data {

Result<BatchLoader> BatchLoader::create(Corpus corpus, const BatchOptions& options) {
  if (options.batch_size < 1 || options.microbatch_size < 1 ||
      options.batch_size % options.microbatch_size != 0) {
    return Status{StatusCode::kConfig,
                  "batch.size " + std::to_string(options.batch_size) +
                      " must be a positive multiple of batch.microbatch_size " +
                      std::to_string(options.microbatch_size)};
  }
  if (options.batch_size > std::numeric_limits<std::int32_t>::max()) {
    return Status{StatusCode::kConfig, "batch.size " + std::to_string(options.batch_size) +
                                           " is above the limit of 2147483647"};
  }
  return BatchLoader(std::move(corpus), options);
}

BatchLoader::BatchLoader(Corpus corpus, const BatchOptions& options)
    : corpus_(std::move(corpus)),
      options_(options),
      row_(static_cast<std::size_t>(corpus_.context() + 1)),
      microbatch_supervised_(static_cast<std::size_t>(microbatch_count())) {}

std::int64_t BatchLoader::microbatch_count() const {
  return options_.batch_size / options_.microbatch_size;
}

SequenceShape BatchLoader::shape() const { return {options_.batch_size, corpus_.sample_count()}; }

std::int64_t BatchLoader::sample_at(StepIndex step, std::int64_t row) const {
  const OrderPosition place = order_position(step, row, shape());
  if (options_.order == OrderKind::kSequential) return place.position;
  return EpochOrder(options_.order_seed, place.epoch, corpus_.sample_count())
      .sample_at(place.position);
}

Result<BatchInfo> BatchLoader::load(StepIndex step, const Batch& batch) {
  const auto context = static_cast<std::size_t>(corpus_.context());
  const std::size_t elements = static_cast<std::size_t>(options_.batch_size) * context;
  HEADRACE_CHECK(batch.inputs.size() == elements && batch.targets.size() == elements,
                 batch.inputs.size(), batch.targets.size(), elements);
  HEADRACE_RETURN_IF_ERROR(corpus_.check_readable());
  std::fill(microbatch_supervised_.begin(), microbatch_supervised_.end(), 0);
  BatchInfo info;
  const OrderPosition begin = order_position(step, 0, shape());
  info.epoch = begin.epoch;
  info.position = begin.position;
  for (std::int64_t row = 0; row < options_.batch_size; ++row) {
    const std::size_t offset = static_cast<std::size_t>(row) * context;
    const auto microbatch = static_cast<std::size_t>(row / options_.microbatch_size);
    std::int64_t supervised = 0;
    HEADRACE_RETURN_IF_ERROR(load_row(sample_at(step, row), batch.inputs.subspan(offset, context),
                                      batch.targets.subspan(offset, context), supervised));
    microbatch_supervised_[microbatch] += supervised;
    info.supervised_tokens += supervised;
  }
  info.microbatch_supervised_tokens = microbatch_supervised_;
  return info;
}

Status BatchLoader::load_row(std::int64_t sample, std::span<std::int32_t> inputs,
                             std::span<std::int32_t> targets, std::int64_t& supervised) {
  const std::int64_t first = sample * corpus_.context();
  corpus_.read(first, row_);
  const auto vocabulary = static_cast<std::uint32_t>(corpus_.vocabulary_size());
  const std::optional<std::uint32_t> ignore = corpus_.ignore_id();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::uint32_t input = row_[i];
    if (input >= vocabulary) return bad_token(first + static_cast<std::int64_t>(i), input, true);
    inputs[i] = static_cast<std::int32_t>(input);
    const std::uint32_t target = row_[i + 1];
    if (ignore && target == *ignore) {
      targets[i] = kIgnoredTarget;
      continue;
    }
    if (target >= vocabulary) {
      return bad_token(first + static_cast<std::int64_t>(i) + 1, target, i + 1 < inputs.size());
    }
    targets[i] = static_cast<std::int32_t>(target);
    ++supervised;
  }
  return Status::ok();
}

Status BatchLoader::bad_token(std::int64_t token, std::uint32_t id, bool as_input) const {
  const TokenPlace place = corpus_.locate(token);
  const std::int64_t vocabulary = corpus_.vocabulary_size();
  std::string message = "data file '" + place.document->path + "': token " +
                        std::to_string(place.token_in_file) + " (byte " +
                        std::to_string(place.byte_in_file) + ") has the id " + std::to_string(id) +
                        ", outside the vocabulary of " + std::to_string(vocabulary) + " (0 to " +
                        std::to_string(vocabulary - 1) + ")";
  if (as_input && corpus_.ignore_id() == id) {
    message += "; it is the ignore token, which may stand only where no input is read";
  } else {
    message += as_input ? ", as an input" : ", as a target";
  }
  return {StatusCode::kData, message + "; correct the file, data.format or model.vocabulary"};
}

}  // namespace headrace::data
