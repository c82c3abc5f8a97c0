#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

TEST_CASE("config: the sample itself is accepted") {
  const Result<Config> config = parse(sample_text());
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->model.kv_heads == 4);
  CHECK(config->model.hidden == 128);
  CHECK(config->model.vocabulary == Vocabulary{true, 256});
  CHECK(config->ranks.size() == 2);
  CHECK(config->optimizer.decay_steps == 10);
  CHECK(config->batch.microbatches() == 4);
}

TEST_CASE("config: C16 a - a misspelt key names the nearest one") {
  const std::string message =
      refusal(changed("learning_rate: 0.001", "learning_rate: 0.001\n  learning_rat: 0.1"));
  CHECK(
      message ==
      "run.yaml:16:3: optimizer.learning_rat: unknown key; did you mean optimizer.learning_rate?");
}

TEST_CASE("config: C16 b - a key on the wrong level is sent to its section") {
  CHECK(refusal("learning_rate: 0.1\n" + sample_text()) ==
        "run.yaml:1:1: learning_rate: unknown section or key; did you mean "
        "optimizer.learning_rate?");
  CHECK(refusal(changed("  steps: 10", "  steps: 10\n  learning_rate: 0.1")) ==
        "run.yaml:18:3: run.learning_rate: unknown key; did you mean optimizer.learning_rate?");
}

TEST_CASE("config: C16 c - a hyphen is no underscore") {
  const std::string message = refusal(changed("  size: 8", "  size: 8\n  micro-batches: 2"));
  CHECK(message ==
        "run.yaml:11:3: batch.micro-batches: unknown key; did you mean "
        "batch.microbatch_size?");
}

TEST_CASE("config: C16 d - a repeated key names both lines") {
  CHECK(refusal(changed("  steps: 10", "  steps: 10\n  steps: 20")) ==
        "run.yaml:18:3: run.steps: repeated key; it also stands at run.yaml:17:3");
  CHECK(refusal(sample_text() + "run:\n  steps: 20\n") ==
        "run.yaml:18:1: run: repeated key; it also stands at run.yaml:16:1");
  CHECK(refusal(sample_text() + "ranks:\n  - { threads: 1, threads: 2 }\n  - { threads: 1 }\n") ==
        "run.yaml:19:19: ranks[0].threads: repeated key; it also stands at run.yaml:19:7");
  CHECK(contains(refusal("lr: 1\nlr: 2\n" + sample_text()),
                 "run.yaml:2:1: lr: repeated key; it also stands at run.yaml:1:1"));
  CHECK(contains(refusal(changed("  steps: 10", "  \"steps\": 10\n  steps: 10")), "repeated key"));
}

TEST_CASE("config: C16 e - a tab as indentation has line and column") {
  CHECK(refusal(changed("  layers: 4", "\tlayers: 4")) ==
        "run.yaml:3:1: a tab as indentation; use spaces");
  CHECK(refusal(changed("  layers: 4", "  \tlayers: 4")) ==
        "run.yaml:3:3: a tab as indentation; use spaces");
  CHECK(parse(changed("layers: 4", "layers:\t4")).is_ok());
}

TEST_CASE("config: C16 f - a key without a value is not zero") {
  CHECK(refusal(changed("learning_rate: 0.001", "learning_rate:")) ==
        "run.yaml:15:3: optimizer.learning_rate: has no value");
  CHECK(refusal(changed("learning_rate: 0.001", "learning_rate:   # later")) ==
        "run.yaml:15:3: optimizer.learning_rate: has no value");
  CHECK(contains(refusal(sample_text() + "determinism:\n"), "determinism: has no value"));
  CHECK(contains(refusal(sample_text() + "stages:\n"), "stages: has no value"));
  CHECK(contains(refusal(changed("train: corpus.txt", "train: \"\"")), "an empty text"));
  CHECK(
      contains(refusal(changed("optimizer:\n  learning_rate: 0.001", "optimizer: {learning_rate}")),
               "optimizer.learning_rate: has no value"));
}

TEST_CASE("config: several problems are told at once in file order") {
  std::string text = changed("layers: 4", "layers: four");
  text.replace(text.find("steps: 10"), 9, "stops: 10");
  const std::string message = refusal(text);
  CHECK(message.starts_with("run.yaml:3:11: model.layers: 'four' is not an integer\n"));
  CHECK(contains(message, "run.yaml:17:3: run.stops: unknown key; did you mean run.steps?"));
  CHECK(contains(message, "run.yaml:16:1: run.steps: required key is missing."));
}

TEST_CASE("config: at most ten problems are told and the rest counted") {
  std::string text = sample_text();
  for (int i = 0; i < 25; ++i) text += "zzz" + std::to_string(i) + ": 1\n";
  const std::string message = refusal(text);
  CHECK(std::count(message.begin(), message.end(), '\n') == 10);
  CHECK(message.ends_with("and 15 more"));
}

TEST_CASE("config: missing keys and sections are named") {
  CHECK(contains(refusal(changed("  width: 32\n", "")),
                 "run.yaml:1:1: model.width: required key is missing."));
  CHECK(contains(refusal(changed("run:\n  steps: 10\n", "")),
                 "run.yaml:1:1: run: required section is missing; it needs steps"));
  CHECK(contains(refusal(changed("  heads: 4\n", "")), "model.heads: required for gpt2"));
}

TEST_CASE("config: words outside their list are refused with the nearest") {
  CHECK(refusal(changed("kind: gpt2", "kind: gtp2")) ==
        "run.yaml:2:9: model.kind: 'gtp2' is not known; expected gpt2, llama or mlp; did you mean "
        "gpt2?");
  CHECK(contains(refusal(sample_text() + "schedule: { policy: lazy }\n"),
                 "'lazy' is not known; expected static or greedy"));
}

TEST_CASE("config: features this build lacks are refused by name") {
  for (const char* section : {"data_parallel", "cluster", "checkpoint", "timeline", "eval"}) {
    const std::string message = refusal(sample_text() + section + ": { a: 1 }\n");
    CHECK_MESSAGE(
        message.starts_with("run.yaml:18:1: " + std::string(section) + ": this build has no "),
        message);
  }
  CHECK(refusal(changed("steps: 10", "steps: 10\n  device: cuda")) ==
        "run.yaml:18:11: run.device: this build has no CUDA");
}

TEST_CASE("config: YAML beyond plain maps lists and scalars is refused") {
  struct Case {
    const char* text;
    const char* reason;
  };
  for (const Case& c : {Case{"a: &x 1\nb: *x\n", "anchors (&name) are not supported"},
                        Case{"a: *x\n", "not YAML"},
                        Case{"<<: {a: 1}\n", "merge keys (<<) are not supported"},
                        Case{"a: !!int 3\n", "tags ("},
                        Case{"a: 1\n---\nb: 1\n", "a second document"},
                        Case{"? [a]\n: b\n", "a key must be a word, not a list"},
                        Case{": b\n", "a key is missing"},
                        Case{"a: {b: 1\n", "a map opened with { is not closed"},
                        Case{"a: [1, 2\n", "a list opened with [ is not closed"},
                        Case{"a: |\n  text\n", "block texts (| and >) are not supported"},
                        Case{"a: ! x\n", "tags (!) are not supported"},
                        Case{"a: \"x\nb: 1\n", "a quote that is not closed on its line"},
                        Case{"a: 'x\n", "a quote that is not closed on its line"},
                        Case{"a: x\n  y\n", "a value over several lines"},
                        Case{"a:\n  b c\n  d e\n", "a value over several lines"},
                        Case{"a: 1\n b: 2\n", "a ':' missing?"},
                        Case{"a:\n  b: 1\n c: 2\n", "this line does not fit those before it"},
                        Case{"\"a\" b\n", "this does not continue what stands before it"},
                        Case{"- a\n- b\n", "expected sections such as `model:`, found a list"},
                        Case{"model\n", "expected sections such as `model:`, found a single value"},
                        Case{"", "the file has no content"},
                        Case{"# only a comment\n", "the file has no content"},
                        Case{"a: [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n", "nested too deeply"},
                        Case{"a: \x01\n", "a control character"},
                        Case{"a: \xff\n", "not UTF-8"}}) {
    CAPTURE(c.text);
    const std::string message = refusal(c.text);
    CHECK_MESSAGE(contains(message, c.reason), message);
    CHECK_MESSAGE(message.starts_with("run.yaml:"), message);
  }
  CHECK(contains(refusal(std::string_view("a: 1\0b", 6)), "a control character"));
  CHECK(contains(refusal(std::string((1 << 20) + 1, '#')), "more than 1 MiB"));
}

TEST_CASE("config: byte order mark and carriage returns and a leading marker are accepted") {
  CHECK(parse("\xef\xbb\xbf" + sample_text()).is_ok());
  CHECK(parse("---\n" + sample_text()).is_ok());
  std::string windows;
  for (const char c : sample_text()) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(parse(windows).is_ok());
}

TEST_CASE("config: a written null is null only where absence means something") {
  const Result<Config> config = parse(changed("corpus.txt", "corpus.txt\n  validation: null"));
  REQUIRE(config.is_ok());
  CHECK_FALSE(config->data.validation.has_value());
  const Result<Config> quoted = parse(changed("corpus.txt", "corpus.txt\n  validation: \"null\""));
  REQUIRE(quoted.is_ok());
  CHECK(quoted->data.validation == "null");
}

TEST_CASE("config: a path that cannot be read is named") {
  const Status missing = load_config("/nonexistent/run.yaml").status();
  CHECK(missing.code() == StatusCode::kConfig);
  CHECK(contains(missing.message(), "/nonexistent/run.yaml: cannot be read"));
  CHECK(contains(load_config("/").status().message(), "it is a folder"));
}

TEST_CASE("config: a file in flow style with every section is accepted") {
  const Result<Config> config = parse(
      "model:        { kind: gpt2, layers: 8, width: 256, heads: 8, context: 256, vocabulary: "
      "bytes, "
      "dropout: 0.0, tied: true }   # gpt2 | llama | mlp\n"
      "pipeline:     { ranks: 4, chunks: 1 }\n"
      "stages:       # optional\n"
      "  - { layers: [embedding, block*2] }\n"
      "  - { layers: [block*2] }\n"
      "  - { layers: [block*2] }\n"
      "  - { layers: [block*2, norm, head] }\n"
      "ranks:\n"
      "  - { process: 0, device: cpu, threads: 1 }\n"
      "  - { process: 0, device: cpu, threads: 1 }\n"
      "  - { process: 0, device: cpu, threads: 1 }\n"
      "  - { process: 0, device: cpu, threads: 1 }\n"
      "schedule:     { name: 1f1b, policy: static }\n"
      "batch:        { size: 32, microbatch_size: 4 }\n"
      "data:         { train: corpus.txt, validation: null, order_seed: 1 }\n"
      "optimizer:    { kind: adamw, learning_rate: 3e-4, betas: [0.9, 0.95], warmup_steps: 20, "
      "decay: cosine, weight_decay: 0.1, clip_norm: 1.0 }\n"
      "run:          { steps: 200, seed: 1, precision: fp32, recompute: none, device: cpu }\n"
      "determinism:  { reduction_blocks: 1 }\n");
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->optimizer.learning_rate == 3e-4);
  CHECK(config->stages.size() == 4);
  CHECK(config->optimizer.decay == DecayKind::kCosine);
}
