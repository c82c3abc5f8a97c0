#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

TEST_CASE("config: an override replaces the value of the file") {
  const Result<Config> config =
      parse(sample_text(), {"optimizer.learning_rate=3e-4", "model.tied=true",
                            "data.train=other text.txt", "optimizer.betas=[0.8, 0.9]",
                            "model.vocabulary=50257", "determinism.reduction_blocks=2"});
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->optimizer.learning_rate == 3e-4);
  CHECK(config->model.tied);
  CHECK(config->data.train == "other text.txt");
  CHECK(config->optimizer.betas == std::array{0.8, 0.9});
  CHECK(config->model.vocabulary == Vocabulary{false, 50257});
  CHECK(config->determinism.reduction_blocks == 2);
}

TEST_CASE("config: an override can set a list section whole") {
  const Result<Config> config =
      parse(sample_text(),
            {"stages=[{layers: [embedding, block*4]}, {layers: [norm, head], frozen: true}]",
             "ranks=[{threads: 2}, {threads: 3}]"});
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->stages[1].frozen);
  CHECK(config->ranks[1].threads == 3);
}

TEST_CASE("config: an override obeys the rules of the file") {
  struct Case {
    const char* text;
    const char* message;
  };
  for (const Case& c :
       {Case{"optimizer.learning_rat=1",
             "optimizer.learning_rat: unknown key; did you mean "
             "optimizer.learning_rate?"},
        Case{"optimizer.lr=1", "optimizer.lr: unknown key; did you mean optimizer.learning_rate?"},
        Case{"lr=1", "lr: unknown section or key; did you mean optimizer.learning_rate?"},
        Case{"run.steps=010", "run.steps: '010' has a leading zero; write it without"},
        Case{"run.steps=", "run.steps: has no value"},
        Case{"run.steps=0", "run.steps: 0 is out of range; expected 1..1000000000000 steps"},
        Case{"run.steps=\"5\"",
             "run.steps: \"5\" in quotes is a text; expected an integer, write it "
             "without quotes"},
        Case{"run.steps", "expected section.key=value"}, Case{"=5", "expected section.key=value"},
        Case{".steps=5", "expected section.key=value"},
        Case{"run.=5", "expected section.key=value"},
        Case{"run=5", "run is a section; expected run.key=value"},
        Case{"data.train=*x", "not YAML: the referenced anchor is not defined"},
        Case{"data.train=\ta", "a tab as indentation; use spaces"},
        Case{"run.steps=[1", "a list opened with [ is not closed"},
        Case{"cluster.port=1", "cluster: this build has no runs over several processes"}}) {
    CAPTURE(c.text);
    CHECK(refusal(sample_text(), {c.text}) == "--set " + std::string(c.text) + ": " + c.message);
  }
  CHECK(contains(refusal(sample_text(), {"stages.0.layers=[block]"}), "stages is a list"));
}

TEST_CASE("config: the same override twice is refused") {
  CHECK(refusal(sample_text(), {"run.steps=5", "run.seed=2", "run.steps=6"}) ==
        "--set run.steps=6: repeated; also given as --set run.steps=5");
}

TEST_CASE("config: an override does not hide what is wrong in the file") {
  CHECK(contains(refusal(changed("steps: 10", "steps: 10\n  steps: 11"), {"run.steps=5"}),
                 "repeated key"));
  CHECK(contains(refusal(sample_text() + "schedule:\n", {"schedule.name=gpipe"}), "has no value"));
}

TEST_CASE("config: cross checks name the override that broke them") {
  CHECK(refusal(sample_text(), {"batch.microbatch_size=3", "batch.size=10"})
            .starts_with("--set batch.size=10: batch.size: "));
}
