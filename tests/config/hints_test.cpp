#include "runtime/config/hints.hpp"

#include "runtime/config/schema.hpp"

#include <doctest/doctest.h>

#include <array>
#include <string>

using namespace headrace::config;

TEST_CASE("config: edit distance counts changes and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("abc", "acb") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("learning_rat", "learning_rate") == 1);
}

TEST_CASE("config: hints know foreign names and misplaced keys") {
  struct Case {
    const char* section;
    const char* key;
    const char* hint;
  };
  for (const Case& c :
       {Case{"optimizer", "lr", "optimizer.learning_rate"},
        Case{"", "lr", "optimizer.learning_rate"}, Case{"model", "n_layer", "model.layers"},
        Case{"model", "hidden_size", "model.width"},
        Case{"model", "learning_rate", "optimizer.learning_rate"},
        Case{"optimizer", "name", "optimizer.kind"},
        Case{"batch", "micro_batch_size", "batch.microbatch_size"},
        Case{"batch", "microBatchSize", "batch.microbatch_size"}, Case{"run", "setps", "run.steps"},
        Case{"", "optimiser", "optimizer"}, Case{"", "modle", "model"}}) {
    CAPTURE(c.key);
    CHECK(key_hint(c.section, c.key) == "did you mean " + std::string(c.hint) + "?");
  }
}

TEST_CASE("config: without anything near the keys of the section are listed") {
  CHECK(key_hint("pipeline", "qqqqqqqqqq") == "the keys of pipeline are ranks, chunks");
  CHECK(key_hint("", "qqqqqqqqqq").starts_with("the sections are model, pipeline, stages"));
}

TEST_CASE("config: word hints list the words") {
  constexpr std::array<std::string_view, 3> kWords = {"gpt2", "llama", "mlp"};
  CHECK(word_hint(kWords, "GPT-2") == "expected gpt2, llama or mlp; did you mean gpt2?");
  CHECK(word_hint(kWords, "mamba2000") == "expected gpt2, llama or mlp");
}
