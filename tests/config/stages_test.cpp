#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

// 30 blocks over the stages given by their layers, one rank each.
std::string with_stages(const std::vector<std::string>& layers, int blocks = 30) {
  std::string text = changed("layers: 4", "layers: " + std::to_string(blocks));
  text.replace(text.find("ranks: 2"), 8, "ranks: " + std::to_string(layers.size()));
  text += "stages:\n";
  for (const std::string& stage : layers) text += "  - layers: [" + stage + "]\n";
  return text;
}

std::string split(const std::vector<int>& blocks) {
  std::vector<std::string> stages;
  for (std::size_t s = 0; s < blocks.size(); ++s) {
    std::string layers = "block*" + std::to_string(blocks[s]);
    if (s == 0) layers = "embedding, " + layers;
    if (s + 1 == blocks.size()) layers += ", norm, head";
    stages.push_back(layers);
  }
  return with_stages(stages);
}

}  // namespace

TEST_CASE("config: C14 a split that sums up is accepted as written") {
  const Result<Config> config = parse(split({10, 10, 7, 3}));
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  REQUIRE(config->stages.size() == 4);
  int sum = 0;
  for (const StageConfig& stage : config->stages) {
    for (const LayerRun& run : stage.layers) sum += run.kind == "block" ? run.count : 0;
  }
  CHECK(sum == 30);
  CHECK(config->stages[0].layers == std::vector<LayerRun>{{"embedding", 1, {}}, {"block", 10, {}}});
  CHECK(config->stages[0].layers[1].position.line == 19);
}

TEST_CASE("config: C14 a split of 31 layers for 30 is refused with the numbers") {
  CHECK(refusal(split({10, 10, 10, 1})) ==
        "run.yaml:18:1: stages: the stages hold 10 + 10 + 10 + 1 = 31 blocks, model.layers is 30; "
        "make them equal");
  CHECK(contains(refusal(split({10, 10, 9})), "10 + 10 + 9 = 29 blocks, model.layers is 30"));
}

TEST_CASE("config: C14 stages without layers are refused") {
  CHECK(contains(refusal(with_stages({"embedding, block*30", "", "norm, head"})),
                 "run.yaml:20:13: stages[1].layers: a stage without layers"));
  CHECK(contains(refusal(split({20, 0, 10})),
                 "run.yaml:20:14: stages[1].layers: 'block*0' has a count out of range"));
  CHECK(contains(refusal(split({40, -10})), "'block*-10' has a count out of range"));
  CHECK(contains(refusal(sample_text() + "stages: []\n"), "stages: an empty list"));
  CHECK(contains(refusal(sample_text() + "stages:\n  - {}\n  - {}\n"),
                 "run.yaml:19:5: stages[0].layers: required key is missing"));
  CHECK(contains(refusal(sample_text() + "stages:\n  - layers: embedding\n"),
                 "expected a list of layers"));
}

TEST_CASE("config: kinds of the user stand beside the blocks and do not count as such") {
  const std::string text =
      with_stages({"embedding, block*2", "residual_linear, block*2, norm, head"}, 4);
  const Result<Config> config = parse(text);
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->stages[1].layers[0].kind == "residual_linear");
}

TEST_CASE("config: C14 the number of stages is ranks times chunks") {
  const std::string text = with_stages({"embedding, block*30", "norm, head"});
  CHECK(parse(text).is_ok());
  CHECK(refusal(text, {"pipeline.chunks=2"}) ==
        "run.yaml:18:1: stages: stages = ranks x chunks: 2 x 2 = 4, but the list has 2");
  CHECK(parse(text, {"pipeline.chunks=2", "pipeline.ranks=1"}).is_ok());
}

TEST_CASE("config: C14 more stages than layers is refused for the automatic split") {
  // Embedding, norm and head count as layers of the list: 3 blocks make 6.
  const std::string text = changed("layers: 4", "layers: 3");
  for (int ranks = 1; ranks <= 10; ++ranks) {
    CAPTURE(ranks);
    CHECK(parse(text, {"pipeline.ranks=" + std::to_string(ranks)}).is_ok() == (ranks <= 6));
  }
  CHECK(contains(refusal(text, {"pipeline.ranks=7"}),
                 "7 x 1 = 7 are too many for 3 layers; at most layers + 3 = 6"));
}

TEST_CASE("config: C14 embedding and norm and head stand once") {
  CHECK(contains(refusal(with_stages({"embedding, block*30", "head, norm, head"})),
                 "stages[1].layers: head stands 2 times"));
  CHECK(contains(refusal(with_stages({"embedding*2, block*30", "norm, head"})),
                 "stages[0].layers: embedding stands 2 times"));
}

TEST_CASE("config: a misspelt layer has its own place") {
  CHECK(contains(refusal(with_stages({"embedding, Block*30", "norm, head"})),
                 "run.yaml:19:25: stages[0].layers: 'Block*30' is not a layer"));
}

TEST_CASE("config: the rank list has an entry per rank") {
  const std::string one = sample_text() + "ranks:\n  - { threads: 2 }\n";
  CHECK(contains(refusal(one), "ranks: the list has 1 entries, pipeline.ranks is 2"));
  const Result<Config> config = parse(one + "  - { device: cpu }\n");
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->ranks[0].threads == 2);
  CHECK(config->ranks[1].threads == 1);
  CHECK(
      contains(refusal(one + "  - { process: 1 }\n"),
               "run.yaml:20:16: ranks[1].process: this build has no runs over several processes"));
}

TEST_CASE("config: fault points name a stage that exists") {
  CHECK(parse(sample_text(), {"debug.nan_at=1:5"})->debug.nan_at == FaultPoint{1, 5});
  CHECK(contains(refusal(sample_text(), {"debug.throw_at=2:1"}),
                 "debug.throw_at: stage 2 does not exist; there are 2"));
}
