// A run as a user sees it: exit codes, the files it writes, what each stream says.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <regex>
#include <string>
#include <thread>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::HeadraceProcess;
using headrace::tests::lines_of;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::run_on_terminal;
using headrace::tests::RunFolder;
using nlohmann::json;

std::vector<std::string> train(const std::vector<std::string>& settings) {
  std::vector<std::string> arguments = {"train", "tiny.yaml", "--summary", "summary.json"};
  for (const std::string& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  return arguments;
}

std::string state_hash_under(const std::vector<std::string>& settings) {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train(settings));
  CAPTURE(outcome.err);
  REQUIRE(outcome.exit_code == 0);
  return json::parse(folder.read("summary.json"))["state_hash"];
}

// Sends `number` once the second step is committed, and returns how the run ended.
Outcome stop_by(const RunFolder& folder, int number) {
  HeadraceProcess process(folder, train({"run.steps=1000000", "run.metrics=metrics.jsonl"}));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (lines_of(folder.read("metrics.jsonl")).size() < 2) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  process.send_signal(number);
  return process.wait();
}

void check_stopped(int number, int exit_code) {
  const RunFolder folder;
  const Outcome outcome = stop_by(folder, number);
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == exit_code);
  const json summary = json::parse(folder.read("summary.json"));
  const auto steps = summary["steps"].get<std::size_t>();
  CHECK(steps >= 2);
  CHECK(steps < 1000000);
  CHECK(lines_of(folder.read("metrics.jsonl")).size() == steps);
  CHECK(contains(outcome.err, "stopped by signal " + std::to_string(number) + " after step " +
                                  std::to_string(steps) + " of 1000000; nothing was saved"));
  CHECK(contains(outcome.out, "where the time went"));
}

}  // namespace

TEST_CASE("tools: a signal stops the run at a step boundary and the exit code says which") {
  check_stopped(SIGINT, 130);
  check_stopped(SIGTERM, 143);
}

TEST_CASE("tools: broken numbers exit 5 and name the first offender") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train({"debug.nan_at=1:2"}));
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 5);
  CHECK(contains(outcome.err, "step 2: loss "));
  CHECK(contains(outcome.err, "no rank applied an update. First non-finite value: stage 1,"));
  CHECK_FALSE(folder.holds("summary.json"));
}

TEST_CASE("tools: an exception inside a stage exits 4 with its text") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train({"debug.throw_at=1:2"}));
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(contains(outcome.err,
                 "rank 1, step 2, action 1F0: debug.throw_at: thrown in stage 1 at step 2"));
}

TEST_CASE("tools: the summary holds the documented keys and nothing else") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train({}));
  REQUIRE(outcome.exit_code == 0);
  const json summary = json::parse(folder.read("summary.json"));
  std::vector<std::string> keys;
  for (const auto& [key, value] : summary.items()) keys.push_back(key);
  std::vector<std::string> documented = {"first_step",
                                         "steps",
                                         "loss",
                                         "grad_norm",
                                         "state_hash",
                                         "numerics_id",
                                         "bubble_predicted",
                                         "bubble_global",
                                         "tokens_per_second",
                                         "peak_activations",
                                         "partition",
                                         "stage_seconds",
                                         "step_seconds_median",
                                         "parameters",
                                         "cpu_us_per_action",
                                         "peak_activations_bound"};
  std::sort(documented.begin(), documented.end());
  CHECK(keys == documented);
  CHECK(summary["first_step"] == 1);
  CHECK(summary["steps"] == 3);
  CHECK(summary["loss"].size() == 3);
  CHECK(summary["grad_norm"].size() == 3);
  // About ln 256 before anything is learnt.
  CHECK(summary["loss"][0].get<double>() == doctest::Approx(5.545).epsilon(0.03));
  CHECK(summary["peak_activations_bound"] == json({2, 1}));
  CHECK(summary["peak_activations"] == json({2, 1}));
  // FLOPs of a token: a block 6,656, the head 8,192; so 3 | 1 + head is the better cut.
  CHECK(summary["partition"] == json({"embedding block.0-2", "block.3 norm head"}));
  // By hand: two tables, per block two norms, qkv, proj, up, down with biases, a norm, a head.
  constexpr int kC = 16;
  constexpr int kBlock = 4 * kC + 3 * kC * kC + 3 * kC + kC * kC + kC + 8 * kC * kC + 4 * kC + kC;
  CHECK(summary["parameters"] == 256 * kC + 16 * kC + 4 * kBlock + 2 * kC + 256 * kC);
  CHECK(std::regex_match(summary["state_hash"].get<std::string>(), std::regex("[0-9a-f]{64}")));
  CHECK(summary["numerics_id"].get<std::string>().substr(0, 4) == "cpu/");
  CHECK_FALSE(folder.holds("summary.json.partial"));
}

TEST_CASE("tools: every schedule and layout ends in the same state hash") {
  const std::string expected = state_hash_under({});
  CHECK(state_hash_under({"schedule.name=gpipe"}) == expected);
  CHECK(state_hash_under({"pipeline.ranks=1"}) == expected);
  CHECK(state_hash_under({"schedule.name=interleaved_1f1b", "pipeline.chunks=2"}) == expected);
  CHECK(state_hash_under({"schedule.policy=greedy", "run.recompute=block"}) == expected);
  CHECK(state_hash_under({"run.seed=2"}) != expected);
}

TEST_CASE("tools: metrics hold one JSON object per step with the documented keys") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train({"run.metrics=metrics.jsonl"}));
  REQUIRE(outcome.exit_code == 0);
  const json summary = json::parse(folder.read("summary.json"));
  const std::vector<std::string> lines = lines_of(folder.read("metrics.jsonl"));
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const json line = json::parse(lines[i]);
    CHECK(line.size() == 9);
    CHECK(line["step"] == i + 1);
    CHECK(line["loss"] == summary["loss"][i]);
    CHECK(line["grad_norm"] == summary["grad_norm"][i]);
    CHECK(line["learning_rate"].get<double>() == doctest::Approx(0.001));
    CHECK(line["seconds"].get<double>() > 0);
    CHECK(line["tokens"] == 8 * 16);
    CHECK(line["supervised_tokens"] == 8 * 16);
    CHECK(line["epoch"] == 0);
    CHECK(line["bubble_global"].get<double>() >= 0);
    CHECK(line["bubble_global"].get<double>() < 1);
  }
}

TEST_CASE("tools: without a terminal there is a log line per step and no control character") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, train({"run.steps=6", "run.log_every=4"}));
  REQUIRE(outcome.exit_code == 0);
  CHECK_FALSE(contains(outcome.err, "\r"));
  CHECK_FALSE(contains(outcome.err, "\033"));
  std::vector<std::string> steps;
  for (const std::string& line : lines_of(outcome.err)) {
    if (contains(line, " info step component=train ")) steps.push_back(line);
  }
  REQUIRE(steps.size() == 2);  // step 4, and always the last
  const std::regex shape(
      R"(\S+ info step component=train step=(\d+) loss=\d+\.\d{6} grad_norm=\d+\.\d{6} )"
      R"(learning_rate=\S+ tokens_per_second=\d+ bubble=\d\.\d{3})");
  std::smatch found;
  REQUIRE(std::regex_match(steps[0], found, shape));
  CHECK(found[1] == "4");
  REQUIRE(std::regex_match(steps[1], found, shape));
  CHECK(found[1] == "6");
}

TEST_CASE("tools: on a terminal one live line is rewritten and ends with the last step") {
  const RunFolder folder;
  const Outcome outcome = run_on_terminal(folder, train({"run.steps=20"}));
  CAPTURE(outcome.out);
  CHECK(outcome.exit_code == 0);
  CHECK_FALSE(contains(outcome.out, "component=train step="));
  const std::regex last(
      "\r\033\\[Kstep 20/20  loss \\d\\.\\d{4}  \\d+ tokens/s  bubble -?\\d+ %  0:00 left\r+\n");
  CHECK(std::regex_search(outcome.out, last));
  CHECK(contains(outcome.out, "where the time went"));
}

TEST_CASE("tools: an error on a terminal does not stick to the live line") {
  const RunFolder folder;
  const Outcome outcome = run_on_terminal(folder, train({"debug.nan_at=1:2"}));
  CAPTURE(outcome.out);
  CHECK(outcome.exit_code == 5);
  CHECK(contains(outcome.out, "step 1/3"));
  // Date and time, then the event, from the first column.
  CHECK(std::regex_search(outcome.out, std::regex("[\r\n]\\S+ error numbers broke ")));
}

TEST_CASE("tools: the times of each rank sum to the wall time of the steps") {
  const RunFolder folder;
  const Outcome outcome =
      run_headrace(folder, train({"run.steps=200", "run.metrics=metrics.jsonl"}));
  REQUIRE(outcome.exit_code == 0);
  double wall = 0;
  for (const std::string& line : lines_of(folder.read("metrics.jsonl"))) {
    wall += json::parse(line)["seconds"].get<double>();
  }
  const std::regex row(R"( +\d+ +(\S+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+) +(\S+))");
  int rows = 0;
  for (const std::string& line : lines_of(outcome.out)) {
    std::smatch found;
    if (!std::regex_match(line, found, row)) continue;
    double sum = 0;
    for (std::size_t i = 1; i <= 6; ++i) sum += std::stod(found[i]);
    CHECK(std::abs(sum - std::stod(found[7])) <= 0.004);  // seven values rounded to milliseconds
    CHECK(std::abs(sum - wall) <= 0.1 * wall + 0.02);     // the last update comes after its commit
    ++rows;
  }
  CHECK(rows == 2);
}
