// schedule: a name or a file, and what only `auto` reads.
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

Config with(const std::string& schedule) {
  const auto config = parse(sample_text() + "schedule: " + schedule + "\n");
  REQUIRE_MESSAGE(config.is_ok(), config.status().message());
  return *config;
}

std::string refused(const std::string& schedule) {
  return refusal(sample_text() + "schedule: " + schedule + "\n");
}

}  // namespace

TEST_CASE("schedule: a file takes the place of a name and survives the resolved text") {
  const Config config = with("{ file: my.csv, policy: greedy }");
  CHECK(config.schedule.file == "my.csv");
  CHECK(config.schedule.name == "file");
  const auto again = parse(resolved_yaml(config));
  REQUIRE_MESSAGE(again.is_ok(), again.status().message());
  CHECK(again->schedule == config.schedule);
  CHECK(with("{ name: gpipe }").schedule.file == std::nullopt);
}

TEST_CASE("schedule: name and file together are refused whichever name it is") {
  for (const char* name : {"1f1b", "gpipe"}) {
    const std::string message = refused(std::string("{ name: ") + name + ", file: my.csv }");
    CHECK_MESSAGE(contains(message, "schedule.file: schedule.name is set as well"), message);
  }
  CHECK(contains(refused("{ name: file }"), "schedule.name: 'file' is a schedule from "));
  Config config = *parse(sample_text());
  config.schedule.name = "gpipe";
  config.schedule.file = "my.csv";
  CHECK(contains(finish_config(config).status().message(), "schedule.name is 'gpipe' as well"));
}

TEST_CASE("schedule: what --set says takes the place of the name or file in the configuration") {
  const std::string named = sample_text() + "schedule: { name: gpipe }\n";
  const std::vector<std::string> to_file = {"schedule.file=my.csv"};
  const auto from_file = parse_config(named, "run.yaml", to_file);
  REQUIRE_MESSAGE(from_file.is_ok(), from_file.status().message());
  CHECK(from_file->schedule.file == "my.csv");
  CHECK(from_file->schedule.name == "file");
  const std::string filed = sample_text() + "schedule: { file: my.csv }\n";
  const std::vector<std::string> to_name = {"schedule.name=gpipe"};
  const auto from_name = parse_config(filed, "run.yaml", to_name);
  REQUIRE_MESSAGE(from_name.is_ok(), from_name.status().message());
  CHECK(from_name->schedule.file == std::nullopt);
  CHECK(from_name->schedule.name == "gpipe");
  const std::vector<std::string> both = {"schedule.name=gpipe", "schedule.file=my.csv"};
  CHECK_FALSE(parse_config(sample_text(), "run.yaml", both).is_ok());
}

TEST_CASE("schedule: backward is a word and group a count") {
  CHECK(with("{ name: gpipe }").schedule.backward == BackwardOrder::kAscending);
  CHECK(with("{ name: gpipe, backward: descending }").schedule.backward ==
        BackwardOrder::kDescending);
  CHECK(contains(refused("{ backward: reverse }"), "expected ascending or descending"));
  CHECK(contains(refused("{ reverse_backward: true }"), "did you mean schedule.backward?"));
  CHECK(with("{ name: interleaved_1f1b, group: 4 }").schedule.group == 4);
  CHECK(contains(refused("{ group: -1 }"), "is out of range"));
}

TEST_CASE("schedule: times are three numbers by letter and only auto reads them") {
  const Config config = with("{ name: auto, times: {F: 1, I: 1.5, W: 0.5}, activation_limit: 6 }");
  CHECK(config.schedule.times == ActionTimes{1, 1.5, 0.5});
  CHECK(config.schedule.activation_limit == 6);
  CHECK(parse(resolved_yaml(config))->schedule == config.schedule);
  CHECK(contains(refused("{ name: auto, times: {F: 1, I: 1} }"), "found 2 of them"));
  CHECK(contains(refused("{ name: auto, times: {F: 1, I: 1, B: 1} }"), "found 'B'"));
  CHECK(contains(refused("{ name: auto, times: [1, 1, 1] }"), "expected three numbers"));
  CHECK(contains(refused("{ name: auto, times: {F: 1, I: 0, W: 1} }"), "out of range"));
  CHECK(contains(refused("{ name: auto, times: {F: 1, I: x, W: 1} }"), "schedule.times"));
  CHECK(contains(refused("{ name: zbv, times: {F: 1, I: 1, W: 1} }"),
                 "schedule.times: only schedule.name: auto reads it, found 'zbv'"));
  CHECK(contains(refused("{ name: zbv, activation_limit: 3 }"), "schedule.activation_limit: only"));
}
