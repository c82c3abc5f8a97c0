// Runs whose data actor no longer answers: the timeout, a signal meanwhile, a second signal.
//
// One thread of the real process is halted by ptrace, as a disk that never answers would halt it.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <thread>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::HeadraceProcess;
using headrace::tests::lines_of;
using headrace::tests::Outcome;
using headrace::tests::RunFolder;

constexpr auto kLimit = std::chrono::seconds(60);

// Looks until `holds` is true. False when it never was.
template <typename Condition>
bool comes_true(const Condition& holds) {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::filesystem::path task_of(pid_t process, pid_t thread) {
  return std::filesystem::path("/proc") / std::to_string(process) / "task" / std::to_string(thread);
}

// The actors' threads start in the order of the ranks; the data actor's is the last.
pid_t data_thread(pid_t process) {
  pid_t last = -1;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    if (text_of(entry.path() / "comm") == "caf.actor\n") {
      last = std::max(last, static_cast<pid_t>(std::stoi(entry.path().filename().string())));
    }
  }
  return last;
}

bool is_asleep(pid_t process, pid_t thread) {
  return contains(text_of(task_of(process, thread) / "status"), "State:\tS");
}

// Whether the process has a handler of its own for this signal.
bool catches(pid_t process, int number) {
  const std::string status = text_of("/proc/" + std::to_string(process) + "/status");
  const std::string name = "SigCgt:";
  const std::size_t at = status.find(name);
  if (at == std::string::npos) return false;
  const std::uint64_t caught = std::stoull(status.substr(at + name.size()), nullptr, 16);
  return ((caught >> (number - 1)) & 1U) != 0;
}

// Holds the data actor's thread where it waits for its next message.
class HaltedData {
 public:
  explicit HaltedData(pid_t process) : process_(process), thread_(data_thread(process)) {
    REQUIRE(thread_ > 0);
    REQUIRE(ptrace(PTRACE_SEIZE, thread_, nullptr, PTRACE_O_EXITKILL) == 0);
    // Halted in the middle of a load it might hold a lock of the allocator.
    REQUIRE(comes_true([this] { return is_asleep(process_, thread_); }));
    REQUIRE(ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0);
    REQUIRE(waitpid(thread_, nullptr, __WALL) == thread_);
  }
  ~HaltedData() { release(); }
  HaltedData(const HaltedData&) = delete;
  HaltedData& operator=(const HaltedData&) = delete;

  void release() {
    if (thread_ < 0) return;
    ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
    thread_ = -1;
  }
  // Waits until the thread is gone although nobody released it: its process ended.
  void outlive() {
    pid_t gone = 0;
    int status = 0;
    CHECK(comes_true([&] {
      gone = waitpid(thread_, &status, __WALL | WNOHANG);
      return gone != 0;
    }));
    CHECK(gone == thread_);
    if (gone != 0) thread_ = -1;
  }

 private:
  pid_t process_;
  pid_t thread_;
};

std::vector<std::string> endless(const std::string& setting) {
  return {"train", "tiny.yaml",         "--summary", "summary.json",
          "--set", "run.steps=1000000", "--set",     "run.metrics=metrics.jsonl",
          "--set", "batch.size=256",    "--set",     setting};
}

void await_second_step(const RunFolder& folder) {
  REQUIRE(comes_true([&] { return lines_of(folder.read("metrics.jsonl")).size() >= 2; }));
}

}  // namespace

TEST_CASE("tools: a data actor that no longer answers ends the run with its step and exit 4") {
  const RunFolder folder;
  HeadraceProcess process(folder, endless("run.action_timeout_seconds=0.5"));
  await_second_step(folder);
  HaltedData halted(process.pid());
  CHECK(comes_true([&] { return contains(folder.read("stderr.txt"), "run failed"); }));
  halted.release();
  const Outcome outcome = process.wait();
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 4);
  const std::size_t steps = lines_of(folder.read("metrics.jsonl")).size();
  // The step after the last committed one is done; it waits for the batch of the next.
  CHECK(contains(outcome.err, "\nstep " + std::to_string(steps + 1) +
                                  ": no progress for run.action_timeout_seconds: the data actor "
                                  "has been loading the batch of step " +
                                  std::to_string(steps + 2)));
  CHECK_FALSE(folder.holds("summary.json"));
}

TEST_CASE("tools: a signal while no batch comes is heeded and the exit code says so") {
  const RunFolder folder;
  HeadraceProcess process(folder, endless("run.action_timeout_seconds=600"));
  await_second_step(folder);
  HaltedData halted(process.pid());
  process.send_signal(SIGTERM);
  halted.outlive();  // the process leaves without the thread that never came back
  const Outcome outcome = process.wait();
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 128 + SIGTERM);
  const std::size_t steps = lines_of(folder.read("metrics.jsonl")).size();
  CHECK(contains(outcome.err, "stopped by signal 15 after step " + std::to_string(steps) + " of"));
  const auto summary = nlohmann::json::parse(folder.read("summary.json"));
  CHECK(summary["steps"] == steps);
  CHECK(summary["state_hash"].get<std::string>().size() == 64);
}

TEST_CASE("tools: a second signal of the other kind ends the process at once") {
  const RunFolder folder;
  HeadraceProcess process(folder, endless("run.action_timeout_seconds=600"));
  await_second_step(folder);
  REQUIRE(catches(process.pid(), SIGTERM));
  REQUIRE(catches(process.pid(), SIGINT));
  HaltedData halted(process.pid());
  process.send_signal(SIGTERM);
  // Two signals that are both pending would be one stop: the handler must have run.
  REQUIRE(comes_true([&] { return !catches(process.pid(), SIGTERM); }));
  process.send_signal(SIGINT);
  halted.outlive();
  const Outcome outcome = process.wait();
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == -1);
  CHECK(outcome.killed_by == SIGINT);
  CHECK_FALSE(folder.holds("summary.json"));
}
