#include "tests/stages/pipeline.hpp"

#include <doctest/doctest.h>

#include <string>

namespace headrace::stages::test {
namespace {

// Windows of the endlessly repeated text, one byte later each.
std::vector<std::int32_t> windows(const std::string& text, std::int64_t sequences,
                                  std::int64_t positions) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t s = 0; s < sequences; ++s) {
    for (std::int64_t t = 0; t <= positions; ++t) {
      const auto at = static_cast<std::size_t>(s * 8 + t) % text.size();
      tokens.push_back(static_cast<unsigned char>(text[at]));
    }
  }
  return tokens;
}

}  // namespace

TEST_CASE("stages: a tiny gpt2 on two stages learns a repeated text by heart") {
  const std::string text = "the mill turns, the water runs, what came in comes out again. ..";
  PipelineOptions options;
  options.model = tiny_gpt2();
  options.model.layers = 2;
  options.model.width = 32;
  options.model.heads = 4;
  options.model.hidden = 128;
  options.model.context = 32;
  options.model.vocabulary = 256;
  options.shape = {4, 32};
  options.microbatches = 2;
  options.optimizer.learning_rate = 5e-3;
  options.optimizer.warmup_steps = 10;
  options.optimizer.decay_steps = 200;
  options.optimizer.clip_norm = 1;
  options.partition = split(options.model, 2);
  Pipeline pipeline(options);
  pipeline.set_tokens(windows(text, 8, 32));
  double loss = 0, first = 0;
  std::int64_t step = 0;
  do {
    ++step;
    const StepResult result = pipeline.step(StepIndex(step));
    loss = (result.losses[0] + result.losses[1]) / static_cast<double>(pipeline.tokens_per_step());
    if (step == 1) first = loss;
  } while (loss >= 0.5 && step < 300);
  MESSAGE("loss " << first << " at step 1, " << loss << " at step " << step);
  CHECK(first > 5.0);
  CHECK(loss < 0.5);
  CHECK(step < 300);
}

}  // namespace headrace::stages::test
