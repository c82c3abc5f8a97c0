#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace headrace::tests {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);

// In the child: only calls that are safe after fork.
[[noreturn]] void become_headrace(const std::vector<char*>& arguments) {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  execv(HEADRACE_BINARY, arguments.data());
  _exit(127);
}

std::vector<char*> to_argv(std::vector<std::string>& arguments) {
  arguments.insert(arguments.begin(), HEADRACE_BINARY);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  return pointers;
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

void limit(decltype(RLIMIT_AS) resource, std::uint64_t bytes) {
  if (bytes == 0) return;
  rlimit granted{};
  if (getrlimit(resource, &granted) != 0) _exit(126);
  granted.rlim_cur = bytes;
  if (setrlimit(resource, &granted) != 0) _exit(126);
}

void redirect(const std::string& path, int descriptor) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0 || dup2(file, descriptor) < 0) _exit(126);
}

}  // namespace

RunFolder::RunFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "headrace_run_XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
  std::string text;
  for (int line = 0; line < 200; ++line) {
    text += "line " + std::to_string(line) + ": the wheel turns " + std::to_string(line * line) +
            " times\n";
  }
  write("corpus.txt", text);
  write("tiny.yaml", tiny_config());
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void RunFolder::write(const std::string& name, const std::string& content) const {
  std::ofstream file(path_ + "/" + name, std::ios::binary);
  file << content;
  REQUIRE(file.flush());
}

std::string RunFolder::read(const std::string& name) const {
  std::ifstream file(path_ + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool RunFolder::holds(const std::string& name) const {
  return std::filesystem::exists(path_ + "/" + name);
}

std::string tiny_config() {
  return R"(model:
  kind: gpt2
  layers: 4
  width: 16
  heads: 2
  context: 16
  vocabulary: bytes
pipeline:
  ranks: 2
schedule:
  name: 1f1b
batch:
  size: 8
  microbatch_size: 2
data:
  train: corpus.txt
optimizer:
  learning_rate: 0.001
run:
  steps: 3
  seed: 1
)";
}

HeadraceProcess::HeadraceProcess(const RunFolder& folder, const std::vector<std::string>& arguments,
                                 const Limits& limits)
    : folder_(folder) {
  std::vector<std::string> owned = arguments;
  const std::vector<char*> argv = to_argv(owned);
  child_ = fork();
  REQUIRE(child_ >= 0);
  if (child_ != 0) return;
  if (chdir(folder_.path().c_str()) != 0) _exit(126);
  redirect("stdout.txt", STDOUT_FILENO);
  redirect("stderr.txt", STDERR_FILENO);
  limit(RLIMIT_STACK, limits.stack_bytes);
  limit(RLIMIT_AS, limits.address_space_bytes);
  become_headrace(argv);
}

HeadraceProcess::~HeadraceProcess() {
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

void HeadraceProcess::send_signal(int number) const { REQUIRE(kill(child_, number) == 0); }

Outcome HeadraceProcess::wait() {
  const auto deadline = std::chrono::steady_clock::now() + kLimit;
  int status = 0;
  pid_t ended = 0;
  while ((ended = waitpid(child_, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(child_, SIGKILL);
      ended = waitpid(child_, &status, 0);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  REQUIRE(ended == child_);
  child_ = -1;
  return {exit_code_of(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0,
          folder_.read("stdout.txt"), folder_.read("stderr.txt")};
}

Outcome run_headrace(const RunFolder& folder, const std::vector<std::string>& arguments,
                     const Limits& limits) {
  return HeadraceProcess(folder, arguments, limits).wait();
}

Outcome run_on_terminal(const RunFolder& folder, const std::vector<std::string>& arguments) {
  std::vector<std::string> owned = arguments;
  const std::vector<char*> argv = to_argv(owned);
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(terminal >= 0);
  REQUIRE(grantpt(terminal) == 0);
  REQUIRE(unlockpt(terminal) == 0);
  // Opened before the fork, so that reading cannot come before the terminal has a user.
  const int shown = open(ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE(shown >= 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (dup2(shown, STDOUT_FILENO) < 0 || dup2(shown, STDERR_FILENO) < 0) _exit(126);
    if (chdir(folder.path().c_str()) != 0) _exit(126);
    become_headrace(argv);
  }
  close(shown);
  Outcome outcome;
  std::array<char, 4096> buffer{};
  // Reading fails with EIO once the last user of the terminal has gone.
  for (ssize_t got = 0; (got = ::read(terminal, buffer.data(), buffer.size())) > 0;) {
    outcome.out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  close(terminal);
  outcome.exit_code = exit_code_of(status);
  return outcome;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace headrace::tests
