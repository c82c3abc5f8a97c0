#include "runtime/config/schema.hpp"
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <string>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

constexpr std::uint32_t kSeed = 20240613;
constexpr int kRounds = 3000;

const std::vector<std::string>& fragments() {
  static const std::vector<std::string> texts = {
      ":",    "- ",       "\n", "{", "}",      "[",    "]",   "*",  "&a ",
      "<<: ", "!!str ",   "\"", "'", "#",      "|",    ">",   "\t", "? ",
      "---",  "...",      "%",  "@", "~",      "null", "0x",  "1e", ".inf",
      "\xc3", "\xf0\x9f", "\r", ",", "\n\n  ", "`",    "\\x", "-",  "  "};
  return texts;
}

std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t limit) { return random() % std::max<std::size_t>(limit, 1); };
  const std::size_t changes = 1 + below(4);
  for (std::size_t i = 0; i < changes; ++i) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, fragments()[below(fragments().size())]);
        break;
      case 1:
        text.erase(at, below(12));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(below(text.size() + 1), text.substr(at, below(40)));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("config: no mutation of a valid file crashes and every refusal has a place") {
  MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  Config rich =
      *parse(sample_text(), {"stages=[{layers: [embedding, block*4]}, {layers: [head]}]"});
  int accepted = 0;
  for (int i = 0; i < kRounds; ++i) {
    const std::string text = mutate(i % 2 == 0 ? sample_text() : resolved_yaml(rich), random);
    const Result<Config> config = parse(text);
    if (config.is_ok()) {
      ++accepted;
      const Result<Config> back = parse(resolved_yaml(*config));
      REQUIRE_MESSAGE(back.is_ok(), text);
      CHECK(*back == *config);
    } else {
      CHECK(config.status().code() == StatusCode::kConfig);
      CHECK_MESSAGE(config.status().message().starts_with("run.yaml:"), text);
    }
  }
  CHECK(accepted > 0);
  CHECK(accepted < kRounds);
}

TEST_CASE("config: no mutation of an override crashes") {
  MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed + 1);
  for (int i = 0; i < kRounds; ++i) {
    const KeyInfo& key = keys()[random() % keys().size()];
    const std::string value = key.required ? "[embedding, block*4]" : default_text(key);
    const std::string text = mutate(key_path(key) + "=" + value, random);
    const Result<Config> config = parse(sample_text(), {text});
    if (!config.is_ok()) CHECK(config.status().code() == StatusCode::kConfig);
  }
}
