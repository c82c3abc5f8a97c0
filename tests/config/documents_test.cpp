#include "runtime/config/documents.hpp"

#include "runtime/config/schema.hpp"
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>

using namespace headrace::config;
using headrace::config::testing::contains;

TEST_CASE("config: the reference has a row for every key") {
  const std::string text = reference_markdown();
  std::size_t rows = 0;
  for (std::size_t at = 0; (at = text.find("\n| `", at)) != std::string::npos; ++at) ++rows;
  CHECK(rows == keys().size() + refused_keys().size());
  for (const SectionInfo& section : sections()) {
    const std::size_t begin = text.find("\n## " + std::string(section.name) + "\n");
    REQUIRE(begin != std::string::npos);
    const std::string part = text.substr(begin, text.find("\n## ", begin + 1) - begin);
    for (const KeyInfo& key : keys()) {
      if (key.section != section.name) continue;
      CAPTURE(key_path(key));
      CHECK(contains(part, "| `" + std::string(key.key) + "` | "));
      CHECK(contains(part, key.sentence));
    }
  }
}

TEST_CASE("config: the JSON schema is closed and has every key") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  CHECK(schema["properties"].size() == sections().size());
  for (const SectionInfo& section : sections()) {
    CAPTURE(section.name);
    nlohmann::json node = schema["properties"][std::string(section.name)];
    CHECK(node["description"] == section.sentence);
    if (section.is_list) node = node["items"];
    CHECK(node["additionalProperties"] == false);
    std::size_t count = 0;
    for (const KeyInfo& key : keys()) {
      if (key.section != section.name) continue;
      ++count;
      CAPTURE(key.key);
      REQUIRE(node["properties"].contains(std::string(key.key)));
      CHECK(node["properties"][std::string(key.key)]["description"] == key.sentence);
      bool required = false;
      if (node.contains("required")) {
        for (const auto& name : node["required"]) required = required || name == key.key;
      }
      CHECK(required == key.required);
    }
    CHECK(node["properties"].size() == count);
  }
}

TEST_CASE("config: the JSON schema repeats ranges words and defaults") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const auto key = [&](const char* section, const char* name) {
    return schema["properties"][section]["properties"][name];
  };
  CHECK(key("model", "dropout")["minimum"] == 0);
  CHECK(key("model", "dropout")["exclusiveMaximum"] == 1);
  CHECK(key("model", "layers")["type"] == "integer");
  CHECK(key("model", "kind")["enum"] == nlohmann::json({"gpt2", "llama", "mlp"}));
  CHECK(key("optimizer", "betas")["default"] == nlohmann::json({0.9, 0.95}));
  CHECK(key("schedule", "name")["default"] == "1f1b");
  CHECK(key("data", "validation")["default"].is_null());
  CHECK(key("run", "action_timeout_seconds")["exclusiveMinimum"] == 0);
}
