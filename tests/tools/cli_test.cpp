// The binary as a user calls it: exit codes, and which stream says what.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <string>
#include <sys/wait.h>

namespace {

struct Answer {
  int exit_code = -1;
  std::string out;
};

// Runs `headrace ARGUMENTS`; `streams` decides what is captured.
Answer call(const std::string& arguments, const std::string& streams = "2>/dev/null") {
  const std::string command = std::string(HEADRACE_BINARY) + " " + arguments + " " + streams;
  Answer answer;
  std::FILE* pipe_stream = ::popen(command.c_str(), "r");
  REQUIRE(pipe_stream != nullptr);
  char buffer[4096];
  for (std::size_t read = 0; (read = std::fread(buffer, 1, sizeof buffer, pipe_stream)) > 0;) {
    answer.out.append(buffer, read);
  }
  const int status = ::pclose(pipe_stream);
  if (WIFEXITED(status)) answer.exit_code = WEXITSTATUS(status);
  return answer;
}

const std::string kErrorsOnly = "2>&1 >/dev/null";
const std::string kQuickstart = std::string(HEADRACE_CONFIGS_FOLDER) + "/quickstart.yaml";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tools: the version is that of the project") {
  const Answer answer = call("--version");
  CHECK(answer.exit_code == 0);
  CHECK(answer.out == "headrace " HEADRACE_VERSION "\n");
}

TEST_CASE("tools: every command has help on standard output") {
  for (const char* command :
       {"", "config ", "config check ", "config reference ", "config schema ", "schedule ",
        "schedule list ", "schedule show ", "schedule check ", "schedule simulate ",
        "schedule compare ", "schedule export ", "schedule import "}) {
    CAPTURE(command);
    const Answer answer = call(command + std::string("--help"));
    CHECK(answer.exit_code == 0);
    CHECK(contains(answer.out, "Usage: "));
    if (std::string(command).rfind("schedule", 0) == 0)
      CHECK(contains(answer.out, "Examples:\n  headrace schedule "));
  }
}

TEST_CASE("tools: wrong usage exits 2 and says so on standard error") {
  for (const char* arguments :
       {"", "nonsense", "config", "config check", "config check a.yaml --bogus",
        "schedule show 1f1b", "schedule show 1f1b --ranks x --microbatches 2",
        "schedule show nonsense --ranks 2 --microbatches 2",
        "schedule show 1f1b --ranks 0 --microbatches 2", "config check /nonexistent.yaml"}) {
    CAPTURE(arguments);
    const Answer answer = call(arguments, kErrorsOnly);
    CHECK(answer.exit_code == 2);
    CHECK_FALSE(answer.out.empty());
  }
}

TEST_CASE("tools: config check answers in text and in JSON") {
  const Answer valid = call("config check " + kQuickstart);
  CHECK(valid.exit_code == 0);
  CHECK(contains(valid.out, "quickstart.yaml: valid\n"));
  const Answer as_json = call("config check --json " + kQuickstart + " --set run.steps=7");
  CHECK(as_json.exit_code == 0);
  const nlohmann::json result = nlohmann::json::parse(as_json.out);
  CHECK(result["valid"] == true);
  CHECK(result["steps"] == 7);
  CHECK(result["microbatches"] == 8);
  const Answer refused = call("config check --json " + kQuickstart + " --set run.steps=010");
  CHECK(refused.exit_code == 2);
  CHECK(nlohmann::json::parse(refused.out)["valid"] == false);
  const Answer wrong = call("config check " + kQuickstart + " --set lr=1", kErrorsOnly);
  CHECK(wrong.exit_code == 2);
  CHECK(contains(wrong.out,
                 "--set lr=1: lr: unknown section or key; did you mean "
                 "optimizer.learning_rate?"));
}

TEST_CASE("tools: config check refuses a schedule that does not exist or fit") {
  const Answer unknown =
      call("config check " + kQuickstart + " --set schedule.name=1f2b", kErrorsOnly);
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.out, "1f2b"));
  CHECK(call("config check " + kQuickstart + " --set pipeline.chunks=2").exit_code == 2);
}

TEST_CASE("tools: a schedule is drawn and its numbers come as JSON") {
  const Answer text = call("schedule show 1f1b --ranks 2 --microbatches 3");
  CHECK(text.exit_code == 0);
  CHECK(contains(text.out, "rank 0 0F0 0F1 .   .   0B0 -   0F2 0B1 -   .   0B2 -\n"));
  CHECK(contains(text.out, "rank 1 .   1F0 1B0 -   1F1 1B1 -   1F2 1B2 -   .   .\n"));
  const nlohmann::json result =
      nlohmann::json::parse(call("schedule show 1f1b --ranks 4 --microbatches 8 --json").out);
  CHECK(result["makespan"] == 33);  // (M + P - 1) * (F + B) = 11 * 3
  CHECK(result["bubble_global"].get<double>() == doctest::Approx(3.0 / 11));
  CHECK(result["peak_activations"] == nlohmann::json({4, 3, 2, 1}));
}

TEST_CASE("tools: a result that cannot be written is a failure") {
  CHECK(call("config reference", ">/dev/full 2>/dev/null").exit_code == 1);
}
