#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

std::string batch(int size, int micro) {
  return changed(
      "  size: 8\n  microbatch_size: 2\n",
      "  size: " + std::to_string(size) + "\n  microbatch_size: " + std::to_string(micro) + "\n");
}

}  // namespace

TEST_CASE("config: C83 a size that is no multiple is refused with equation and numbers") {
  CHECK(
      refusal(batch(10, 4)) ==
      "run.yaml:10:9: batch.size: size = microbatches x microbatch_size has no whole solution: 10 "
      "= M x 4 lies between M = 2 and M = 3; use a size of 8 or 12");
  CHECK(
      refusal(batch(2, 4)) ==
      "run.yaml:10:9: batch.size: size = microbatches x microbatch_size has no whole solution: 2 = "
      "M x 4 lies between M = 0 and M = 1; use a size of 4");
}

TEST_CASE("config: C83 zero and negative sizes are refused") {
  CHECK(contains(refusal(batch(0, 4)), "batch.size: 0 is out of range"));
  CHECK(contains(refusal(batch(-8, 4)), "batch.size: -8 is out of range"));
  CHECK(contains(refusal(batch(8, 0)), "batch.microbatch_size: 0 is out of range"));
  CHECK(contains(refusal(batch(8, -2)), "batch.microbatch_size: -2 is out of range"));
}

TEST_CASE("config: C83 a third number is refused because it follows from the two") {
  const std::string message = refusal(changed("  size: 8", "  size: 8\n  microbatches: 3"));
  CHECK(message ==
        "run.yaml:11:3: batch.microbatches: it follows from batch.size = microbatches x "
        "batch.microbatch_size; leave it out");
}

TEST_CASE("config: C83 exactly the multiples are accepted") {
  for (int size = 1; size <= 24; ++size) {
    for (int micro = 1; micro <= 24; ++micro) {
      CAPTURE(size);
      CAPTURE(micro);
      bool whole = false;
      for (int m = 1; m <= size; ++m) whole = whole || m * micro == size;
      const Result<Config> config = parse(batch(size, micro));
      CHECK(config.is_ok() == whole);
      if (config.is_ok()) CHECK(config->batch.microbatches() * micro == size);
    }
  }
}

TEST_CASE("config: C83 the layout never changes the global batch") {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const Result<Config> config = parse(sample_text(), {"pipeline.ranks=" + std::to_string(ranks)});
    REQUIRE(config.is_ok());
    CHECK(config->batch.size == 8);
    CHECK(config->batch.microbatches() == 4);
  }
}

TEST_CASE("config: reduction blocks divide the microbatches") {
  for (int blocks = 1; blocks <= 8; ++blocks) {
    const bool divides = blocks == 1 || blocks == 2 || blocks == 4;
    const std::string message =
        refusal(sample_text(), {"determinism.reduction_blocks=" + std::to_string(blocks)});
    CAPTURE(blocks);
    CHECK(message.empty() == divides);
    if (blocks == 3) {
      CHECK(
          message ==
          "--set determinism.reduction_blocks=3: determinism.reduction_blocks: it must divide the "
          "microbatches: M = size / microbatch_size = 8 / 2 = 4 is not a multiple of 3");
    }
  }
}

TEST_CASE("config: heads divide the width and key heads divide the heads") {
  for (int heads = 1; heads <= 40; ++heads) {
    CAPTURE(heads);
    const bool divides =
        heads == 1 || heads == 2 || heads == 4 || heads == 8 || heads == 16 || heads == 32;
    CHECK(parse(sample_text(), {"model.heads=" + std::to_string(heads)}).is_ok() == divides);
    const Result<Config> llama =
        parse(sample_text(), {"model.kind=llama", "model.heads=" + std::to_string(heads)});
    CHECK(llama.is_ok() == (divides && heads != 32));  // 32 heads are one feature wide
  }
  for (int kv_heads = 1; kv_heads <= 6; ++kv_heads) {
    CAPTURE(kv_heads);
    const bool divides = kv_heads == 1 || kv_heads == 2 || kv_heads == 4;
    CHECK(parse(sample_text(), {"model.kind=llama", "model.kv_heads=" + std::to_string(kv_heads)})
              .is_ok() == divides);
  }
  CHECK(contains(refusal(sample_text(), {"model.heads=5"}), "32 is not a multiple of 5"));
  CHECK(contains(refusal(sample_text(), {"model.kind=llama", "model.heads=32"}), "32 / 32 = 1"));
}

TEST_CASE("config: a key the chosen kind would ignore is refused") {
  CHECK(contains(refusal(sample_text(), {"model.kv_heads=2"}), "or use kind llama"));
  CHECK(contains(refusal(sample_text(), {"model.kind=mlp"}), "mlp has no attention"));
  CHECK(contains(refusal(sample_text(), {"model.rope_base=5e5"}), "no rotary positions"));
  CHECK(contains(refusal(sample_text(), {"model.kind=llama", "model.gelu=exact"}), "SwiGLU"));
  CHECK(contains(refusal(sample_text(), {"optimizer.momentum=0.9"}), "adamw has betas"));
  CHECK(contains(refusal(sample_text(), {"optimizer.kind=sgd", "optimizer.betas=[0.8, 0.9]"}),
                 "sgd has momentum"));
  CHECK(parse(changed("  heads: 4\n", ""), {"model.kind=mlp"}).is_ok());
  CHECK(parse(sample_text(), {"optimizer.kind=sgd", "optimizer.momentum=0.9"}).is_ok());
}

TEST_CASE("config: the inner width has a default per kind") {
  const auto hidden = [](const std::string& kind, int width) {
    Config config = *parse(sample_text());
    config.model.kind = kind == "llama" ? ModelKind::kLlama : ModelKind::kGpt2;
    config.model.width = width;
    config.model.heads = 1;
    config.model.kv_heads = 0;
    config.model.hidden = 0;
    const Result<Config> finished = finish_config(config);
    REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
    return finished->model.hidden;
  };
  CHECK(hidden("gpt2", 768) == 3072);
  CHECK(hidden("llama", 96) == 256);
  CHECK(hidden("llama", 64) == 176);  // 170.67 rounded up to a multiple of 8
  CHECK(hidden("llama", 4096) == 10928);
}
