#include "runtime/config/layout.hpp"

#include "runtime/config/documents.hpp"
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <regex>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

// A letter per layer, stages divided by bars, as Megatron prints a layout that is written out.
std::string letters(const std::vector<StageConfig>& stages) {
  std::string text;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (s > 0) text += '|';
    for (const LayerRun& run : stages[s].layers) {
      if (run.kind == "embedding") text += 'E';
      if (run.kind == "block") text.append(static_cast<std::size_t>(run.count), 't');
      if (run.kind == "head") text += 'L';
    }
  }
  return text;
}

std::string unrolled(std::string_view text) {
  const LayoutParse parse = parse_layout(text, {1, 1, 0});
  return parse.problem ? "refused: " + parse.problem->message : letters(parse.stages);
}

// `offset: message` of the refusal.
std::string problem(std::string_view text) {
  const LayoutParse parse = parse_layout(text, {1, 1, 0});
  if (!parse.problem) return letters(parse.stages);
  CHECK(parse.stages.empty());
  return std::to_string(parse.problem->offset) + ": " + parse.problem->message;
}

// Megatron-LM's parse_str_to_list: two textual substitutions, written from its description.
std::string unrolled_by_text(std::string text) {
  std::erase(text, ',');
  for (const char* pattern : {"\\(([^)]+)\\)\\*(\\d+)", "(.)\\*(\\d+)"}) {
    const std::regex repeat(pattern);
    std::string out;
    std::smatch match;
    while (std::regex_search(text, match, repeat)) {
      out += match.prefix();
      for (int i = 0; i < std::stoi(match[2]); ++i) out += match[1];
      text = match.suffix();
    }
    text = out + text;
  }
  return text;
}

std::string layout_config(std::string_view layout, int blocks, int ranks) {
  std::string text = changed("layers: 4", "layers: " + std::to_string(blocks));
  text.replace(text.find("ranks: 2"), 8, "ranks: " + std::to_string(ranks));
  return text + "stages: " + std::string(layout) + "\n";
}

}  // namespace

TEST_CASE("config: a Megatron layout is unrolled as Megatron does") {
  CHECK(unrolled("EtL") == "EtL");
  CHECK(unrolled("Et*3|t*2,L") == "Ettt|ttL");
  CHECK(unrolled("Ett|(tt|)*3L") == "Ett|tt|tt|tt|L");
  CHECK(unrolled("E,t|(t|tt|)*2,t*2|L") == "Et|t|tt|t|tt|tt|L");
  CHECK(unrolled("E(|t)*2,|tL") == "E|t|t|tL");
  CHECK(unrolled("E(t)*3L") == "EtttL");
  CHECK(unrolled("E(t*2|)*2L") == "Ett|tt|L");
  CHECK(unrolled(",E,,t,*,2,|,L,") == "Ett|L");
}

TEST_CASE("config: random layouts agree with the two substitutions of Megatron") {
  constexpr std::uint32_t kSeed = 7;
  MESSAGE("seed " << kSeed);
  std::uint32_t state = kSeed;
  const auto below = [&](std::uint32_t limit) {
    state = state * 1664525U + 1013904223U;
    return (state >> 16) % limit;
  };
  const auto blocks = [&] {
    return below(2) == 0 ? std::string("t") : "t*" + std::to_string(1 + below(12));
  };
  for (int round = 0; round < 500; ++round) {
    std::string text = "E" + blocks();
    for (std::uint32_t part = below(4); part > 0; --part) {
      if (below(3) == 0) text += ',';
      text +=
          below(2) == 0 ? "|" + blocks() : "(|" + blocks() + ")*" + std::to_string(1 + below(5));
    }
    text += below(2) == 0 ? "|L" : ",L";
    CAPTURE(text);
    CHECK(unrolled(text) == unrolled_by_text(text));
  }
}

TEST_CASE("config: the example of Megatron is refused for its m and fits without it") {
  CHECK(problem("Et*3|(tt|)*29,m|L") ==
        "14: 'm' is Megatron's multi-token prediction, a layer this build does not have; leave it "
        "out");
  const Result<Config> config = parse(layout_config("\"Et*3|(tt|)*29,L\"", 61, 31));
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  REQUIRE(config->stages.size() == 31);
  CHECK(config->stages[0].layers == std::vector<LayerRun>{{"embedding", 1, {}}, {"block", 3, {}}});
  CHECK(config->stages[29].layers == std::vector<LayerRun>{{"block", 2, {}}});
  CHECK(config->stages[30].layers == std::vector<LayerRun>{{"norm", 1, {}}, {"head", 1, {}}});
}

TEST_CASE("config: a layout and the list of the same layers are the same configuration") {
  const Result<Config> layout = parse(layout_config("Et*2|ttL", 4, 2));
  const Result<Config> list = parse(
      layout_config("\n  - layers: [embedding, block*2]\n  - layers: [block*2, norm, head]", 4, 2));
  REQUIRE_MESSAGE(layout.is_ok(), layout.status().message());
  REQUIRE_MESSAGE(list.is_ok(), list.status().message());
  CHECK(*layout == *list);
  CHECK(resolved_yaml(*layout) == resolved_yaml(*list));
  CHECK(config_hash(*layout) == config_hash(*list));
  CHECK(*parse(sample_text(), {"stages=Ett|ttL"}) == *list);
}

TEST_CASE("config: every malformed layout is refused at its character") {
  CHECK(problem("").starts_with("0: an empty layout"));
  CHECK(problem("Et|xL").starts_with("3: 'x' is no layer; expected E"));
  CHECK(problem("et|L").starts_with("0: 'e' is no layer in this case"));
  CHECK(problem("ET|L").starts_with("1: 'T' is no layer in this case"));
  CHECK(problem("Et |L").starts_with("2: ' ' is no layer"));
  CHECK(problem("Et3L").starts_with("2: '3' is no layer"));
  CHECK(problem(std::string("Et\0L", 4)).starts_with("2: '?' is no layer"));
  CHECK(problem("*3EtL").starts_with("0: '*' repeats the letter"));
  CHECK(problem("Et*L").starts_with("2: '*' needs a count"));
  CHECK(problem("Et*").starts_with("2: '*' needs a count"));
  CHECK(problem("Et*0|tL").starts_with("3: the count must be a number from 1 to 65536"));
  CHECK(problem("Et*03L").starts_with("3: the count must be"));
  CHECK(problem("Et*99999999999999999999L").starts_with("3: the count must be"));
  CHECK(problem("Et*1,0L").starts_with("5: a comma inside a number"));
  CHECK(problem("Et*2*3L").starts_with("4: a repeat of a repeat"));
  CHECK(problem("E(t|)*2*3L").starts_with("7: a repeat of a repeat"));
  CHECK(problem("E(t(t)*2)*2L").starts_with("3: a group inside a group"));
  CHECK(problem("E(t|tL").starts_with("1: this parenthesis is not closed"));
  CHECK(problem("Et)*2L").starts_with("2: this parenthesis was not opened"));
  CHECK(problem("E(t|)L").starts_with("4: a group needs a count"));
  CHECK(problem("E(t|)").starts_with("4: a group needs a count"));
  CHECK(problem("E()*2L").starts_with("1: an empty group"));
  CHECK(problem("E(,)*2L").starts_with("1: an empty group"));
  CHECK(problem("E(t*65536)*65536L").starts_with("1: the layout has more than 65536 layers"));
}

TEST_CASE("config: stages without layers and misplaced ends of a layout are refused") {
  CHECK(problem("|EtL").starts_with("0: stage 0 ends here without a layer; Megatron lets"));
  CHECK(problem("Et||tL").starts_with("3: stage 1 ends here without a layer"));
  CHECK(problem("Et|tL|").starts_with("6: stage 2 ends here without a layer"));
  CHECK(problem("E|*3tL").starts_with("1: a repeated '|'"));
  CHECK(problem("E|*1tL") == "E|tL");
  CHECK(problem("tt|tL").starts_with("0: E, the embedding, is missing"));
  CHECK(problem("Ett").starts_with("3: L, the norm and the head, is missing"));
  CHECK(problem("EtE|tL").starts_with("2: E stands a second time"));
  CHECK(problem("tE|tL").starts_with("1: E stands behind a block"));
  CHECK(problem("EtL|t").starts_with("4: 't' stands behind L"));
  CHECK(problem("EtL|L").starts_with("4: L stands a second time"));
  CHECK(problem("EtL*2").starts_with("2: L stands a second time"));
}

TEST_CASE("config: refusals of a layout have the line and column of the letter") {
  CHECK(contains(refusal(layout_config("Et|xL", 2, 2)),
                 "run.yaml:18:12: stages: character 4 of the layout: 'x' is no layer"));
  CHECK(contains(refusal(layout_config("\"Et|xL\"", 2, 2)), "run.yaml:18:13: stages: character 4"));
  CHECK(contains(refusal(layout_config("'Et|'", 2, 2)), "run.yaml:18:13: stages: character 4"));
  CHECK(
      contains(refusal(sample_text(), {"stages=Et|x"}), "--set stages=Et|x: stages: character 4"));
  CHECK(refusal(layout_config("Et|tL", 4, 2)) ==
        "run.yaml:18:1: stages: the stages hold 1 + 1 = 2 blocks, model.layers is 4; make them "
        "equal");
  CHECK(contains(refusal(layout_config("Et|t|tL", 3, 2)), "2 x 1 = 2, but the list has 3"));
  CHECK(contains(refusal(layout_config("{}", 3, 2)), "stages: expected a list"));
  CHECK(contains(refusal(layout_config("null", 3, 2)), "stages: expected a list"));
}

TEST_CASE("config: a stage of a layout has the place of its first letter") {
  const Result<Config> config = parse(layout_config("\"Et|(t|)*2L\"", 3, 4));
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  CHECK(config->places.of("stages[0].layers") == "run.yaml:18:10");
  CHECK(config->places.of("stages[1].layers") == "run.yaml:18:14");
  CHECK(config->places.of("stages[2]") == "run.yaml:18:14");
  CHECK(config->places.of("stages[3].layers") == "run.yaml:18:19");
}

TEST_CASE("config: the JSON schema takes a list or a layout for the stages") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const nlohmann::json& stages = schema["properties"]["stages"];
  CHECK(stages["type"] == nlohmann::json({"array", "string"}));
  const std::regex pattern(stages["pattern"].get<std::string>());
  CHECK(std::regex_match("Et*3|(tt|)*29,L", pattern));
  CHECK_FALSE(std::regex_match("embedding", pattern));
}
