// Documents that repeat what the binary knows: they are compared with it.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

using headrace::tests::lines_of;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;
using nlohmann::json;

std::string read_source(const std::string& name) {
  std::ifstream file(std::string(HEADRACE_SOURCE_FOLDER) + "/" + name, std::ios::binary);
  REQUIRE_MESSAGE(file, name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// First cells of the rows under `heading`, without backquotes.
std::set<std::string> first_cells(const std::string& page, const std::string& heading) {
  std::set<std::string> cells;
  bool inside = false;
  const std::regex row(R"(\| `([a-z_]+)` \|.*)");
  for (const std::string& line : lines_of(page)) {
    if (line.rfind("#", 0) == 0) inside = line == heading;
    std::smatch found;
    if (inside && std::regex_match(line, found, row)) cells.insert(found[1]);
  }
  return cells;
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

}  // namespace

TEST_CASE("tools: the configuration reference in docs is what the binary prints") {
  const RunFolder folder;
  CHECK(run_headrace(folder, {"config", "reference"}).out ==
        read_source("docs/CONFIG_REFERENCE.md"));
}

TEST_CASE("tools: the keys a run writes are those of the architecture page") {
  const RunFolder folder;
  REQUIRE(run_headrace(folder, {"train", "tiny.yaml", "--summary", "summary.json", "--set",
                                "run.metrics=metrics.jsonl"})
              .exit_code == 0);
  const std::string page = read_source("docs/ARCHITECTURE.md");
  CHECK(keys_of(json::parse(folder.read("summary.json"))) ==
        first_cells(page, "### Keys of the summary"));
  CHECK(keys_of(json::parse(lines_of(folder.read("metrics.jsonl")).at(0))) ==
        first_cells(page, "### Keys of metrics.jsonl"));
}
