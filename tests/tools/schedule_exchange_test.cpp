// `schedule export`, `import` and `check`: files, round trips, findings.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;
using Json = nlohmann::ordered_json;

std::string exported(const RunFolder& folder, const std::vector<std::string>& rest) {
  std::vector<std::string> arguments{"schedule", "export"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  const Outcome outcome = run_headrace(folder, arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  return outcome.out;
}

Json findings_of(const RunFolder& folder, const std::string& text) {
  folder.write("wrong.csv", text);
  const Outcome outcome = run_headrace(folder, {"schedule", "check", "wrong.csv", "--json"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.empty());
  const Json answer = Json::parse(outcome.out);
  CHECK(answer["valid"] == false);
  REQUIRE(answer["findings"].is_array());
  REQUIRE_FALSE(answer["findings"].empty());
  for (const Json& finding : answer["findings"]) {
    CHECK(finding["rank"].is_number_integer());
    CHECK(finding["cell"].is_number_integer());
    CHECK_FALSE(finding["text"].get<std::string>().empty());
  }
  return answer["findings"];
}

}  // namespace

TEST_CASE("tools: schedule export writes the two forms of the file") {
  const RunFolder folder;
  const std::vector<std::string> sizes{"1f1b", "--ranks", "2", "--microbatches", "2"};
  CHECK(exported(folder, sizes) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  auto comms = sizes;
  comms.insert(comms.end(), {"--form", "compute-comms"});
  CHECK(exported(folder, comms) ==
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
        "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  auto as_json = sizes;
  as_json.emplace_back("--json");
  const Json answer = Json::parse(exported(folder, as_json));
  CHECK(answer["form"] == "compute-only");
  CHECK(answer["rows"] == Json({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"}));
}

TEST_CASE("tools: export then import then export gives the same bytes") {
  const RunFolder folder;
  const std::vector<std::vector<std::string>> cases{
      {"gpipe", "--ranks", "3", "--microbatches", "4", "--backward", "descending"},
      {"interleaved_1f1b", "--ranks", "4", "--microbatches", "8", "--chunks", "2"},
      {"interleaved_zb", "--ranks", "2", "--microbatches", "6", "--chunks", "3", "--group", "3"},
      {"zbv", "--ranks", "4", "--microbatches", "10"},
      {"dualpipev", "--ranks", "4", "--microbatches", "10"},
      {"dualpipe", "--ranks", "4", "--microbatches", "8"},
      {"forward_only_v", "--ranks", "2", "--microbatches", "3"}};
  for (const auto& rest : cases) {
    for (const char* form : {"compute-only", "compute-comms"}) {
      CAPTURE(rest.front());
      CAPTURE(form);
      auto arguments = rest;
      arguments.insert(arguments.end(), {"--form", form});
      const std::string first = exported(folder, arguments);
      folder.write("first.csv", first);
      const Outcome imported = run_headrace(
          folder, {"schedule", "import", "first.csv", "--form", form, "--out", "second.csv"});
      REQUIRE_MESSAGE(imported.exit_code == 0, imported.err);
      CHECK(imported.out.empty());
      CHECK(folder.read("second.csv") == first);
      CHECK(exported(folder, {"second.csv", "--form", form}) == first);
      CHECK(run_headrace(folder, {"schedule", "check", "second.csv"}).exit_code == 0);
    }
  }
}

TEST_CASE("tools: a file simulates like the schedule it came from") {
  const RunFolder folder;
  folder.write("mine.csv", exported(folder, {"zb_h1", "--ranks", "4", "--microbatches", "8"}));
  const Outcome outcome = run_headrace(
      folder, {"schedule", "simulate", "mine.csv", "--times", "F=1,I=1,W=1", "--json"});
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(Json::parse(outcome.out)["makespan"] == 27);
  const Outcome other = run_headrace(folder, {"schedule", "simulate", "mine.csv", "--ranks", "5"});
  CHECK(other.exit_code == 2);
  CHECK(contains(other.err, "mine.csv: the file has ranks 4, asked for was 5"));
}

TEST_CASE("tools: a schedule name is no file even where a file has that name") {
  const RunFolder folder;
  folder.write("1f1b", "nonsense\n");
  CHECK(exported(folder, {"1f1b", "--ranks", "1", "--microbatches", "1"}) == "0F0,0B0\n");
  folder.write("plain", "0F0,0B0\n");
  CHECK(exported(folder, {"plain"}) == "0F0,0B0\n");
}

TEST_CASE("tools: schedule import turns old letters and idle cells into the current form") {
  const RunFolder folder;
  folder.write("old.csv", "0F0,,0BW0\n");
  const Outcome outcome = run_headrace(folder, {"schedule", "import", "old.csv"});
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.out == "0F0,0B0\n");
  CHECK(contains(outcome.err, "old.csv: "));
  const Outcome as_json = run_headrace(folder, {"schedule", "import", "old.csv", "--json"});
  CHECK(as_json.err.empty());
  const Json answer = Json::parse(as_json.out);
  CHECK(answer["rows"] == Json({"0F0,0B0"}));
  CHECK_FALSE(answer["notes"].empty());
}

TEST_CASE("tools: schedule check lists what is wrong by rank and cell") {
  const RunFolder folder;
  const Json twice = findings_of(folder, "0F0,0F1,0F0,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(twice.front()["rank"] == 0);
  const Json unreadable = findings_of(folder, "0F0,0F1,0B0,0B1\n1F0,1X0,1F1,1B1\n");
  CHECK(unreadable.front()["rank"] == 1);
  CHECK(unreadable.front()["cell"] == 1);
  CHECK(contains(unreadable.front()["text"], "1X0"));
  // The cells are those of the file, idle ones counted.
  const Json shifted = findings_of(folder, "0F0,,,0F1,0B0,0B1\n,,1B0,1F0,1F1,1B1\n");
  CHECK(shifted.front()["rank"] == 1);
  CHECK(shifted.front()["cell"] == 2);
}

TEST_CASE("tools: schedule check says in text what the JSON says") {
  const RunFolder folder;
  folder.write("wrong.csv", "0F0,0B0\n1B0,1F0\n");
  const Outcome outcome = run_headrace(folder, {"schedule", "check", "wrong.csv"});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(contains(outcome.err, "wrong.csv: 1 finding"));
  CHECK(contains(outcome.err, "rank 1, cell 0: 1B0"));
  CHECK(contains(outcome.err, "rank 1, from column 0: >1B0< >1F0<"));
}

TEST_CASE("tools: schedule check accepts a good file with its facts") {
  const RunFolder folder;
  folder.write("good.csv", exported(folder, {"1f1b", "--ranks", "4", "--microbatches", "8"}));
  const Outcome outcome = run_headrace(folder, {"schedule", "check", "good.csv", "--json"});
  REQUIRE(outcome.exit_code == 0);
  const Json answer = Json::parse(outcome.out);
  CHECK(answer["valid"] == true);
  CHECK(answer["findings"].empty());
  CHECK(answer["peak_activations"] == Json({4, 3, 2, 1}));
  CHECK(answer["deadlock"]["runtime"] == "ok");
  CHECK(contains(run_headrace(folder, {"schedule", "check", "good.csv"}).out, "good.csv: valid\n"));
}

TEST_CASE("tools: C10 schedule check shows where blocking sends stand still") {
  const RunFolder folder;
  folder.write("both_send.csv",
               "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
               "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  const std::string cycle =
      "rank 0 at 0SEND_F1 waits for rank 1; rank 1 at 1SEND_B0 waits for rank 0";
  const Outcome outcome = run_headrace(folder, {"schedule", "check", "both_send.csv"});
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.out,
                 "given/rendezvous_tag, given/rendezvous_fifo, naive/rendezvous_tag, "
                 "naive/rendezvous_fifo: deadlock: " +
                     cycle));
  CHECK(contains(outcome.out, ">0SEND_F1<"));
  const Json answer =
      Json::parse(run_headrace(folder, {"schedule", "check", "both_send.csv", "--json"}).out);
  CHECK(contains(answer["reasons"]["given/rendezvous_tag"].get<std::string>(), cycle));
}

TEST_CASE("tools: a transfer in a compute only file is refused by name") {
  const RunFolder folder;
  folder.write("mixed.csv", "0F0,0SEND_F0,0B0\n1F0,1B0\n");
  for (const char* form : {"auto", "compute-only"}) {
    CAPTURE(form);
    const Outcome outcome =
        run_headrace(folder, {"schedule", "check", "mixed.csv", "--form", form});
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "0SEND_F0"));
  }
}

TEST_CASE("tools: files that cannot be read or written are refused") {
  const RunFolder folder;
  for (const char* command : {"check", "import"}) {
    const Outcome outcome = run_headrace(folder, {"schedule", command, "absent"});
    CHECK(outcome.exit_code == 2);
    CHECK(contains(outcome.err, "absent: cannot be read: there is no such file"));
  }
  CHECK(contains(run_headrace(folder, {"schedule", "check", "."}).err, "it is a folder"));
  const Outcome unwritable =
      run_headrace(folder, {"schedule", "export", "1f1b", "--ranks", "1", "--microbatches", "1",
                            "--out", "absent/out.csv"});
  CHECK(unwritable.exit_code == 2);
  CHECK(contains(unwritable.err, "absent/out.csv: cannot be written: "));
}
