// Runs a piece of code in a forked child and tells how it ended.
//
// What it is for: tests of what aborts or writes to stderr. What it does not do: run code that
// needs other threads (a forked child has one). Thread rule: call from a single-threaded test only.
#pragma once

#include <doctest/doctest.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace headrace::tests {

struct ChildEnd {
  int signal = 0;            // signal that ended the child, 0 if it exited
  int exit_status = -1;      // its exit status, -1 if a signal ended it
  std::string error_output;  // what it wrote to stderr
};

template <typename Body>
ChildEnd run_in_child(const Body& body) {
  int ends[2] = {-1, -1};
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    // doctest's own handlers would report the signal as a failure of this test.
    std::signal(SIGABRT, SIG_DFL);
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    body();
    _exit(0);
  }
  close(ends[1]);
  ChildEnd end;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
    end.error_output.append(buffer, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_status = WEXITSTATUS(status);
  return end;
}

}  // namespace headrace::tests
