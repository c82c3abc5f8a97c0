#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

void check_round_trip(const Config& config) {
  const std::string text = resolved_yaml(config);
  const Result<Config> back = parse(text);
  REQUIRE_MESSAGE(back.is_ok(), back.status().message());
  CHECK(*back == config);
  CHECK(resolved_yaml(*back) == text);
  CHECK(config_hash(*back) == config_hash(config));
}

}  // namespace

TEST_CASE("config: the resolved text reads back as the same configuration") {
  check_round_trip(*parse(sample_text()));
  check_round_trip(*parse(
      sample_text(),
      {"stages=[{layers: [embedding, block*4], frozen: true}, {layers: [norm, head]}]",
       "ranks=[{threads: 2}, {threads: 3}]", "data.validation='x: y # z'", "debug.nan_at=1:7",
       "data.ignore_token=0", "model.vocabulary=256", "optimizer.learning_rate=1e-9",
       "run.seed=9223372036854775807", "run.metrics=out/m.jsonl"}));
}

TEST_CASE("config: every text survives quoting") {
  Config config = *parse(sample_text());
  for (const std::string& path :
       {std::string("null"), std::string("true"), std::string("a\"b\\c"), std::string("a: b # c"),
        std::string("tab\there"), std::string("line\nbreak"), std::string(" lead and trail "),
        std::string("*x"), std::string("münchen/τ"), std::string("[a]"), std::string("1e-4")}) {
    CAPTURE(path);
    config.data.train = path;
    check_round_trip(config);
  }
}

TEST_CASE("config: the hash ignores what may differ between processes and nothing else") {
  const std::string base = config_hash(*parse(sample_text()));
  CHECK(base.size() == 64);
  CHECK(config_hash(*parse(sample_text(), {"run.metrics=here.jsonl"})) == base);
  CHECK(config_hash(*parse(sample_text(), {"run.log_every=7"})) == base);
  std::set<std::string> hashes = {base};
  for (const char* change :
       {"run.seed=2", "run.steps=11", "model.tied=true", "optimizer.learning_rate=0.002",
        "pipeline.ranks=1", "data.order_seed=5", "schedule.policy=greedy", "model.dropout=0.1"}) {
    hashes.insert(config_hash(*parse(sample_text(), {change})));
  }
  CHECK(hashes.size() == 9);
}

TEST_CASE("config: every file in configs is accepted and round trips") {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(HEADRACE_CONFIGS_FOLDER)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  CHECK(files.size() >= 6);
  for (const std::filesystem::path& file : files) {
    CAPTURE(file.string());
    const Result<Config> config = load_config(file.string());
    REQUIRE_MESSAGE(config.is_ok(), config.status().message());
    check_round_trip(*config);
  }
}

TEST_CASE("config: a configuration built in code is finished under the same rules") {
  Config config = *parse(sample_text());
  config.ranks.clear();
  config.model.kv_heads = 0;
  REQUIRE(finish_config(config).is_ok());
  CHECK(*finish_config(config) == *parse(sample_text()));
  config.model.dropout = 1.0;
  config.run.steps = 0;
  const Status status = finish_config(config).status();
  CHECK(status.code() == StatusCode::kConfig);
  CHECK(status.message() ==
        "model.dropout: 1.0 is out of range; expected [0, 1)\n"
        "run.steps: 0 is out of range; expected 1..1000000000000 steps");
}
