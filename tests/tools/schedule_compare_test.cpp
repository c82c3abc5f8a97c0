// `schedule compare`: fair times, figures against closed forms, order, refusals.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;
using Json = nlohmann::ordered_json;

Json compared(const RunFolder& folder, const std::vector<std::string>& rest) {
  std::vector<std::string> arguments{"schedule", "compare", "--json"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const Outcome outcome = run_headrace(folder, arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  return Json::parse(outcome.out);
}

std::map<std::string, Json> by_name(const Json& rows) {
  std::map<std::string, Json> found;
  for (const Json& row : rows) found[row["schedule"]] = row;
  return found;
}

}  // namespace

TEST_CASE("tools: schedule compare cuts the same model for every number of chunks") {
  const RunFolder folder;
  const Json answer =
      compared(folder, {"--ranks", "4", "--microbatches", "8", "--times", "F=2,I=2,W=2", "--only",
                        "gpipe,1f1b,interleaved_1f1b,zb_h1,zbv,dualpipe,chimera"});
  auto rows = by_name(answer["schedules"]);
  REQUIRE(rows.size() == 7);
  // (M + P - 1)(F + B) in stages; (M V + P - 1)(F + B) in chunks, each half as long.
  CHECK(rows["gpipe"]["makespan"] == 11 * 6);
  CHECK(rows["1f1b"]["makespan"] == 11 * 6);
  CHECK(rows["interleaved_1f1b"]["makespan"] == (8 * 2 + 3) * 6 / 2);
  CHECK(rows["zb_h1"]["makespan"] == 2 * (8 * 3 + 3));
  CHECK(rows["zbv"]["makespan"] == 6 * 8 + 3);  // 6 M F + (P - 1) F of half stages, F = 1
  for (const auto& [name, row] : rows) {
    CAPTURE(name);
    // The work is that of the model, whatever the cut: M (F + I + W) a rank.
    const double work = row["makespan"].get<double>() * (1 - row["bubble_global"].get<double>());
    CHECK(work == doctest::Approx(8 * 6));
    CHECK(row["replicas"] == (name == "dualpipe" || name == "chimera" ? 2 : 1));
  }
  CHECK(rows["gpipe"]["peak_activations"] == 8);
  CHECK(rows["gpipe"]["peak_share"] == 2);
  CHECK(rows["zbv"]["peak_activations"] == 8);
  CHECK(rows["zbv"]["peak_share"] == 1);
  CHECK(rows["1f1b"]["hops"] == 2 * 3);
  CHECK(rows["dualpipe"]["hops"] == 2 * 3);
  CHECK(rows["interleaved_1f1b"]["hops"] == 2 * 7);
  CHECK(rows["zbv"]["hops"] == 2 * 6);
  CHECK(rows["zbv"]["bubble_span"].get<double>() == doctest::Approx(0.0));
  const Json& sorted = answer["schedules"];
  CHECK(std::is_sorted(sorted.begin(), sorted.end(), [](const Json& a, const Json& b) {
    return a["makespan"].get<double>() < b["makespan"].get<double>();
  }));
}

TEST_CASE("tools: schedule compare prints the span bubbles of the zero bubble paper") {
  const RunFolder folder;
  // arXiv 2401.10241, Table 9 (times) and Table 5 (bubbles), P = 8, M = 24.
  auto rows = by_name(compared(
      folder, {"--ranks", "8", "--microbatches", "24", "--times", "F=18.522,I=18.086,W=9.337",
               "--hop", "0.601", "--only", "1f1b,zb_h1,zb_h2"})["schedules"]);
  CHECK(rows["1f1b"]["bubble_span"].get<double>() == doctest::Approx(0.2431).epsilon(0.0005));
  CHECK(rows["zb_h1"]["bubble_span"].get<double>() == doctest::Approx(0.1585).epsilon(0.0005));
  CHECK(rows["zb_h2"]["bubble_span"].get<double>() == doctest::Approx(0.1083).epsilon(0.0005));
}

TEST_CASE("tools: schedule compare says why a schedule is not there") {
  const RunFolder folder;
  const Json answer = compared(folder, {"--ranks", "3", "--microbatches", "4", "--only",
                                        "1f1b,dualpipe,dualpipev,chimera,forward_only"});
  CHECK(answer["schedules"].size() == 1);
  auto absent = by_name(answer["absent"]);
  REQUIRE(absent.size() == 4);
  CHECK(contains(absent["dualpipe"]["reason"], "P"));
  CHECK(contains(absent["dualpipev"]["reason"], "M"));
  CHECK(contains(absent["forward_only"]["reason"], "forwards only"));
  const Outcome text = run_headrace(folder, {"schedule", "compare", "--ranks", "3",
                                             "--microbatches", "4", "--only", "1f1b,dualpipe"});
  CHECK(contains(text.out, "with V chunks a stage takes 1/V of them"));
  CHECK(contains(text.out, "not here:\n  dualpipe: "));
}

TEST_CASE("tools: schedule compare holds auto to a limit and marks the others") {
  const RunFolder folder;
  auto rows =
      by_name(compared(folder, {"--ranks", "4", "--microbatches", "8", "--limit", "4", "--chunks",
                                "1", "--only", "1f1b,gpipe,zb_h1,auto"})["schedules"]);
  CHECK(rows["gpipe"]["over_limit"] == true);
  CHECK(rows["1f1b"]["over_limit"] == false);
  CHECK(rows["auto"]["over_limit"] == false);
  CHECK(rows["auto"]["makespan"].get<double>() <= rows["zb_h1"]["makespan"].get<double>());
  const Json both = compared(folder, {"--ranks", "2", "--microbatches", "4", "--only", "auto"});
  REQUIRE(both["schedules"].size() == 2);
  CHECK(both["schedules"][0]["chunks"].get<int>() + both["schedules"][1]["chunks"].get<int>() == 3);
}

TEST_CASE("tools: schedule compare sizes a configuration") {
  const RunFolder folder;
  const Json answer = compared(folder, {"tiny.yaml", "--only", "1f1b,gpipe,interleaved_1f1b"});
  CHECK(answer["ranks"] == 2);
  CHECK(answer["microbatches"] == 4);
  auto rows = by_name(answer["schedules"]);
  REQUIRE(rows.size() == 3);
  for (const char* name : {"1f1b", "gpipe"}) {
    const Outcome checked = run_headrace(folder, {"config", "check", "tiny.yaml", "--json", "--set",
                                                  std::string("schedule.name=") + name});
    const auto memory = Json::parse(checked.out)["memory_bytes"].get<std::vector<std::int64_t>>();
    CHECK(rows[name]["bytes"] == *std::max_element(memory.begin(), memory.end()));
  }
  // The estimate is relative: a mean share of the model has F = I = W = 1, so the work is M 3.
  const Json& row = rows["interleaved_1f1b"];
  CHECK(row["makespan"].get<double>() * (1 - row["bubble_global"].get<double>()) ==
        doctest::Approx(4 * 3));
}

TEST_CASE("tools: schedule compare takes the times a run has measured") {
  const RunFolder folder;
  REQUIRE(run_headrace(folder, {"train", "tiny.yaml", "--summary", "summary.json"}).exit_code == 0);
  const Json seconds = Json::parse(folder.read("summary.json"))["stage_seconds"];
  REQUIRE(seconds.size() == 2);
  const Json answer =
      compared(folder, {"tiny.yaml", "--summary", "summary.json", "--only", "1f1b,gpipe"});
  CHECK(answer["times"]["unit"] == "s");
  for (const char* key : {"F", "I", "W"}) {
    const double sum = seconds[0][key].get<double>() + seconds[1][key].get<double>();
    CHECK(sum > 0);
    CHECK(answer["times"][key].get<double>() == doctest::Approx(sum / 2));
  }
}

TEST_CASE("tools: schedule compare refuses what it cannot compare") {
  const RunFolder folder;
  folder.write("empty.json", "{}\n");
  folder.write("text.json", "nonsense\n");
  struct Refusal {
    std::vector<std::string> rest;
    std::string message;
  };
  for (const auto& [rest, message] : std::vector<Refusal>{
           {{}, "needs a CONFIG, or --ranks P and --microbatches M"},
           {{"--ranks", "2"}, "needs a CONFIG, or --ranks P and --microbatches M"},
           {{"tiny.yaml", "--ranks", "2"}, "--ranks and --microbatches come from tiny.yaml"},
           {{"absent.yaml"}, "absent.yaml"},
           {{"tiny.yaml", "--summary", "absent.json"}, "absent.json: cannot be read"},
           {{"tiny.yaml", "--summary", "empty.json"}, "empty.json: it has no stage_seconds"},
           {{"tiny.yaml", "--summary", "text.json"}, "text.json: it is no JSON object"},
           {{"--ranks", "2", "--microbatches", "2", "--only", "2f2b"}, "--only 2f2b: unknown"},
           {{"--ranks", "2", "--microbatches", "2", "--times", "Q=1"}, "'Q=1' is no duration"}}) {
    CAPTURE(message);
    std::vector<std::string> arguments{"schedule", "compare"};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const Outcome outcome = run_headrace(folder, arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, message));
  }
}
