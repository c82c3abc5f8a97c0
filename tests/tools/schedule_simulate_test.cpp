// `schedule simulate`, `list` and `show`: keys, numbers against closed forms, refusals.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::run_on_terminal;
using headrace::tests::RunFolder;
using Json = nlohmann::ordered_json;

std::vector<std::string> simulate_arguments(const std::string& name, int ranks, int microbatches,
                                            const std::string& times) {
  return {"schedule",
          "simulate",
          name,
          "--ranks",
          std::to_string(ranks),
          "--microbatches",
          std::to_string(microbatches),
          "--times",
          times,
          "--json"};
}

Json answer_of(const RunFolder& folder, const std::vector<std::string>& arguments) {
  const Outcome outcome = run_headrace(folder, arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.err.empty());
  return Json::parse(outcome.out);
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

}  // namespace

TEST_CASE("tools: schedule simulate agrees with the closed forms of gpipe and 1f1b") {
  const RunFolder folder;
  for (const std::string name : {"gpipe", "1f1b"}) {
    for (const auto& [ranks, microbatches] : {std::pair{1, 3}, {2, 2}, {4, 2}, {4, 9}}) {
      CAPTURE(name);
      CAPTURE(ranks);
      CAPTURE(microbatches);
      const Json answer =
          answer_of(folder, simulate_arguments(name, ranks, microbatches, "F=1.5,B=3.25"));
      CHECK(answer["makespan"] == (microbatches + ranks - 1) * 4.75);
      const double idle = (ranks - 1) * 4.75;
      REQUIRE(answer["idle"].size() == static_cast<std::size_t>(ranks));
      for (int rank = 0; rank < ranks; ++rank) {
        CHECK(answer["idle"][static_cast<std::size_t>(rank)].get<double>() ==
              doctest::Approx(idle));
        CHECK(answer["peak_activations"][static_cast<std::size_t>(rank)] ==
              (name == "gpipe" ? microbatches : std::min(microbatches, ranks - rank)));
      }
      CHECK(answer["bubble_global"].get<double>() ==
            doctest::Approx((ranks - 1.0) / (microbatches + ranks - 1)));
      CHECK(answer["hops"] == 2 * (ranks - 1));
      CHECK(answer["times"]["I"] == 1.625);
      CHECK(answer["times_note"] == "I = W = B / 2 = 1.625");
    }
  }
}

TEST_CASE("tools: schedule simulate has the keys scripts rely on in a stable order") {
  const RunFolder folder;
  const Json answer = answer_of(folder, simulate_arguments("1f1b", 2, 4, "F=1,B=2,I=1,W=1"));
  CHECK(keys_of(answer) ==
        std::vector<std::string>{"schedule", "ranks", "chunks", "stages", "microbatches", "times",
                                 "makespan", "busy", "idle", "idle_causes", "bubble_global",
                                 "bubble_span", "peak_activations", "hops", "deadlock", "reasons",
                                 "least_buffers", "links", "critical_path"});
  CHECK(answer["deadlock"]["runtime"] == "ok");
  // Both neighbours send first: 1F1B needs a buffer where transfers are posted one by one.
  CHECK(answer["deadlock"]["naive/rendezvous_tag"] == "deadlock");
  CHECK(contains(answer["reasons"]["naive/rendezvous_tag"].get<std::string>(), "0SEND_F1"));
  CHECK(contains(answer["reasons"]["naive/rendezvous_tag"].get<std::string>(), "1SEND_B0"));
  CHECK(answer["deadlock"]["naive/buffer1_tag"] == "ok");
  CHECK_FALSE(answer["reasons"].contains("naive/buffer1_tag"));
  CHECK(answer["deadlock"]["torch/rendezvous_tag"] == "ok");
  CHECK(answer["least_buffers"] == 1);
  CHECK(answer["links"].size() == 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Json& causes = answer["idle_causes"][rank];
    const double sum = causes["warm_up"].get<double>() + causes["cool_down"].get<double>() +
                       causes["dependency"].get<double>() + causes["transfer"].get<double>();
    CHECK(sum == doctest::Approx(answer["idle"][rank].get<double>()));
  }
  CHECK(answer["critical_path"].front()["action"] == "0F0");
  CHECK(answer["critical_path"].back()["action"] == "0B3");
  CHECK(answer["critical_path"].back()["end"] == answer["makespan"]);
}

TEST_CASE("tools: schedule simulate names a message that would be taken for another") {
  const RunFolder folder;
  auto arguments = simulate_arguments("zbv", 4, 8, "F=1,I=1,W=1");
  CHECK(answer_of(folder, arguments)["deadlock"]["naive/buffered_fifo"] == "mismatch");
  arguments.emplace_back("--no-transports");
  CHECK(answer_of(folder, arguments)["deadlock"] == Json({{"runtime", "ok"}}));
}

TEST_CASE("tools: schedule simulate adds two hops per boundary to gpipe") {
  const RunFolder folder;
  auto arguments = simulate_arguments("gpipe", 4, 8, "F=1,B=2");
  arguments.insert(arguments.end(), {"--hop", "0.25"});
  CHECK(answer_of(folder, arguments)["makespan"] == 11 * 3 + 2 * 3 * 0.25);
}

TEST_CASE("tools: schedule simulate measures zb_h1 and zbv in both bubbles") {
  const RunFolder folder;
  // M (F + I + W) + (P - 1)(F + I - W), both measures agree.
  const Json first = answer_of(folder, simulate_arguments("zb_h1", 4, 8, "F=1,I=1,W=1"));
  CHECK(first["makespan"] == 8 * 3 + 3);
  CHECK(first["bubble_global"].get<double>() == doctest::Approx(3.0 / 27));
  CHECK(first["bubble_span"].get<double>() == doctest::Approx(3.0 / 27));
  CHECK(first["peak_activations"] == Json({4, 4, 4, 4}));
  // 6 M F + (P - 1) F over chunks; no bubble in the span; the global one is the skew of (P - 1) F.
  const Json second = answer_of(folder, simulate_arguments("zbv", 4, 10, "F=1,I=1,W=1"));
  CHECK(second["chunks"] == 2);
  CHECK(second["makespan"] == 63);
  CHECK(second["bubble_span"].get<double>() == doctest::Approx(0.0));
  CHECK(second["bubble_global"].get<double>() == doctest::Approx(3.0 / 63));
  CHECK(second["peak_activations"] == Json({8, 8, 8, 8}));
  CHECK(second["hops"] == 2 * (2 * 4 - 2));
}

TEST_CASE("tools: a full backward of its own counts where it is used") {
  const RunFolder folder;
  const Json full = answer_of(folder, simulate_arguments("1f1b", 4, 8, "F=1,B=1.75,I=1,W=1"));
  CHECK(full["makespan"] == 11 * 2.75);
  CHECK(contains(full["times_note"].get<std::string>(), "B = 1.75 is not I + W = 2"));
  const Json split = answer_of(folder, simulate_arguments("zb_h1", 4, 8, "F=1,B=1.75,I=1,W=1"));
  CHECK(split["makespan"] == 27);
  const Outcome both =
      run_headrace(folder, simulate_arguments("dualpipe", 4, 8, "F=1,B=1.75,I=1,W=1"));
  CHECK(both.exit_code == 2);
  CHECK(contains(both.err, "both full and split backwards, so B = 1.75 must be I + W = 2"));
}

TEST_CASE("tools: schedule simulate takes pairs and other transfers") {
  const RunFolder folder;
  // Two ranks, four microbatches, a hop of 1: the sender is busy for each of its sends.
  auto arguments = simulate_arguments("gpipe", 2, 1, "F=1,B=2");
  arguments.insert(arguments.end(), {"--hop", "1", "--communication", "sync"});
  CHECK(answer_of(folder, arguments)["makespan"] == 3 + 1 + 1 + 3);
  // The published figure of dualpipev: 66 units; pairs of 2 instead of 3 units shorten it.
  auto pairs = simulate_arguments("dualpipev", 4, 10, "F=1,I=1,W=1");
  CHECK(answer_of(folder, pairs)["makespan"] == 66);
  pairs.insert(pairs.end(), {"--pair", "2"});
  CHECK(answer_of(folder, pairs)["makespan"] < 66);
  auto hangs = simulate_arguments("zb_h2", 4, 8, "F=1,I=1,W=1");
  hangs.insert(hangs.end(), {"--hop", "0.1", "--communication", "rendezvous"});
  const Outcome outcome = run_headrace(folder, hangs);
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "hangs when every transfer waits for both sides"));
}

TEST_CASE("tools: schedule simulate can hand the gradient of a full backward on after I") {
  const RunFolder folder;
  auto arguments = simulate_arguments("gpipe", 4, 8, "F=1,I=1,W=1");
  arguments.emplace_back("--gradient-after-input");
  const Json answer = answer_of(folder, arguments);
  // M (F + B) and the skew of (P - 1)(F + I): W no longer delays the rank below.
  CHECK(answer["makespan"] == 8 * 3 + 3 * 2);
  CHECK(answer["times"]["gradient_after_input"] == true);
}

TEST_CASE("tools: wrong durations are refused with what was read") {
  const RunFolder folder;
  for (const auto& [times, message] :
       {std::pair<std::string, std::string>{"F", "'F' is no duration"},
        {"F=", "'F=' is no duration"},
        {"X=1", "'X=1' is no duration"},
        {"F=1,", "'' is no duration"},
        {"F=one", "'F=one' needs a number of at least 0"},
        {"F=-1", "'F=-1' needs a number of at least 0"},
        {"F=nan", "'F=nan' needs a number of at least 0"},
        {"F=1e999", "'F=1e999' needs a number of at least 0"},
        {"F=1e308", "'F=1e308' needs a number of at least 0 and at most 1e12"},
        {"F=1,F=2", "F is there twice"},
        {"F=1,I=1", "I needs W or B beside it"},
        {"B=1,W=2", "W = 2 is more than B = 1"}}) {
    CAPTURE(times);
    const Outcome outcome = run_headrace(folder, simulate_arguments("1f1b", 2, 2, times));
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, "--times " + times + ": "));
    CHECK(contains(outcome.err, message));
  }
}

TEST_CASE("tools: a latency or share that is no number in its range is refused") {
  const RunFolder folder;
  for (const std::string option : {"--hop", "--pair", "--released-at-input"})
    for (const std::string value : {"nan", "-nan", "inf", "-1", "2e12", "one"}) {
      CAPTURE(option);
      CAPTURE(value);
      std::vector<std::string> arguments = simulate_arguments("auto", 2, 2, "F=1,B=2");
      arguments.insert(arguments.end(), {option, value});
      const Outcome outcome = run_headrace(folder, arguments);
      CHECK(outcome.exit_code == 2);
      CHECK(outcome.out.empty());
      CHECK(contains(outcome.err, option + ": '" + value + "' is no number from 0 to "));
    }
  const Outcome compared = run_headrace(
      folder, {"schedule", "compare", "--ranks", "2", "--microbatches", "2", "--hop", "nan"});
  CHECK(compared.exit_code == 2);
  CHECK(contains(compared.err, "--hop: 'nan' is no number from 0 to 1e+12"));
}

TEST_CASE("tools: a name without sizes and sizes without a schedule are refused") {
  const RunFolder folder;
  const Outcome bare = run_headrace(folder, {"schedule", "simulate", "1f1b", "--ranks", "2"});
  CHECK(bare.exit_code == 2);
  CHECK(contains(bare.err, "schedule 1f1b needs --ranks P and --microbatches M"));
  const Outcome unknown =
      run_headrace(folder, {"schedule", "simulate", "2f2b", "--ranks", "2", "--microbatches", "2"});
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "schedule '2f2b' is unknown; the schedules are "));
  const Outcome missing = run_headrace(folder, {"schedule", "simulate", "absent.csv"});
  CHECK(missing.exit_code == 2);
  CHECK(contains(missing.err, "absent.csv: cannot be read: there is no such file"));
  const Outcome odd = run_headrace(
      folder, {"schedule", "simulate", "dualpipe", "--ranks", "3", "--microbatches", "6"});
  CHECK(odd.exit_code == 2);
  CHECK(contains(odd.err, "P=3"));
}

TEST_CASE("tools: schedule list names every schedule with its rule") {
  const RunFolder folder;
  const Json entries = answer_of(folder, {"schedule", "list", "--json"});
  std::vector<std::string> names;
  for (const Json& entry : entries) {
    names.push_back(entry["name"]);
    CHECK_FALSE(entry["summary"].get<std::string>().empty());
    CHECK_FALSE(entry["rule"].get<std::string>().empty());
  }
  for (const char* name :
       {"gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b", "looped_bfs", "zb_h1", "zb_h2",
        "interleaved_zb", "zbv", "v_half", "v_min", "dualpipe", "dualpipev", "chimera", "hanayo",
        "forward_only", "forward_only_v", "auto"}) {
    CAPTURE(name);
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
}

TEST_CASE("tools: schedule show colours a terminal and only a terminal") {
  const RunFolder folder;
  const std::vector<std::string> arguments{"schedule", "show",           "1f1b", "--ranks",
                                           "2",        "--microbatches", "3"};
  const std::string escape = "\x1b[";
  CHECK(contains(run_on_terminal(folder, arguments).out, escape + "38;5;16;48;5;153m0F0"));
  CHECK_FALSE(contains(run_headrace(folder, arguments).out, escape));
  setenv("NO_COLOR", "1", 1);
  CHECK_FALSE(contains(run_on_terminal(folder, arguments).out, escape));
  unsetenv("NO_COLOR");
}

TEST_CASE("tools: schedule show folds a wide grid on a terminal") {
  const RunFolder folder;
  const Outcome outcome =
      run_on_terminal(folder, {"schedule", "show", "1f1b", "--ranks", "2", "--microbatches", "40"});
  CHECK(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "columns 0 to "));
}

TEST_CASE("tools: schedule show keeps columns exact where durations allow") {
  const RunFolder folder;
  const Outcome outcome =
      run_headrace(folder, {"schedule", "show", "gpipe", "--ranks", "2", "--microbatches", "1",
                            "--times", "F=1,I=0.5,W=0.5", "--hop", "0.5"});
  REQUIRE(outcome.exit_code == 0);
  CHECK(contains(outcome.out, "a column is 0.5; idle is ."));
  CHECK(contains(outcome.out, "rank 0 0F0 -   .   .   .   .   .   .   0B0 -\n"));
  CHECK(contains(outcome.out, "rank 1 .   .   .   1F0 -   1B0 -   .   .   .\n"));
  CHECK(contains(outcome.out, "makespan 5, bubble 60.0 % (global)"));
}

TEST_CASE("tools: auto shortens the makespan or the span as it is told") {
  const RunFolder folder;
  std::vector<std::string> arguments = simulate_arguments("auto", 4, 8, "F=1,I=1,W=1");
  for (const char* more : {"--limit", "8", "--measure"}) arguments.emplace_back(more);
  const auto with = [&](const char* measure) {
    std::vector<std::string> all = arguments;
    all.emplace_back(measure);
    return answer_of(folder, all);
  };
  const Json global = with("global");
  const Json span = with("span");
  CHECK(global["makespan"].get<double>() <= span["makespan"].get<double>() + 1e-9);
  CHECK(span["bubble_span"].get<double>() < global["bubble_span"].get<double>());
  arguments.emplace_back("fastest");
  const Outcome refused = run_headrace(folder, arguments);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "--measure"));
}
