// Runs the real binary as a user does, in a folder of its own.
//
// What it is for: arguments, exit code, both streams, signals and a terminal. What it does not do:
// judge what came out. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace headrace::tests {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal it did not catch
  int killed_by = 0;   // that signal; SIGKILL when it had to be ended
  std::string out;
  std::string err;
};

// A folder with a corpus of text, `corpus.txt`, and the file `tiny.yaml` that trains on it: four
// blocks on two ranks, three steps of four microbatches. Removed at the end.
class RunFolder {
 public:
  RunFolder();
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  void write(const std::string& name, const std::string& content) const;
  [[nodiscard]] std::string read(const std::string& name) const;
  [[nodiscard]] bool holds(const std::string& name) const;

 private:
  std::string path_;
};

// The text of `tiny.yaml`.
[[nodiscard]] std::string tiny_config();

// What the system grants a process; 0: as much as this one has.
struct Limits {
  std::uint64_t address_space_bytes = 0;
  std::uint64_t stack_bytes = 0;  // of each thread
};

// A running `headrace`; its working folder is the RunFolder, which outlives it.
class HeadraceProcess {
 public:
  HeadraceProcess(const RunFolder& folder, const std::vector<std::string>& arguments,
                  const Limits& limits = {});
  ~HeadraceProcess();  // kills what still runs
  HeadraceProcess(const HeadraceProcess&) = delete;
  HeadraceProcess& operator=(const HeadraceProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return child_; }
  void send_signal(int number) const;
  // Waits for the end; after a minute it kills the process and the exit code is -1.
  [[nodiscard]] Outcome wait();

 private:
  const RunFolder& folder_;
  pid_t child_ = -1;
};

[[nodiscard]] Outcome run_headrace(const RunFolder& folder,
                                   const std::vector<std::string>& arguments,
                                   const Limits& limits = {});
// Both streams on a terminal: everything it showed, raw, is `out`.
[[nodiscard]] Outcome run_on_terminal(const RunFolder& folder,
                                      const std::vector<std::string>& arguments);

[[nodiscard]] bool contains(const std::string& text, const std::string& part);
[[nodiscard]] std::vector<std::string> lines_of(const std::string& text);

}  // namespace headrace::tests
