// The `headrace` binary: picks a command, runs it, and maps its Status to the documented exit code.
#include "runtime/base/status.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/version.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>

namespace headrace::cli {
namespace {

constexpr int kUsageExit = 2;
constexpr int kSignalExit = 128;

int report(const Status& status) {
  std::cout.flush();
  if (status.is_ok() && !std::cout) {
    std::cerr << "headrace: the result could not be written to standard output\n";
    return exit_code(StatusCode::kInternal);
  }
  if (!status.is_ok() && !status.message().empty()) std::cerr << status.message() << "\n";
  return exit_code(status.code());
}

bool has_command(const CLI::App& app, const std::string& name) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  return std::any_of(commands.begin(), commands.end(),
                     [&](const CLI::App* command) { return command->get_name() == name; });
}

int run(int argc, char** argv) {
  CLI::App app{"Headrace: pipeline-parallel training, every rank an actor.", "headrace"};
  app.set_version_flag("--version", version_text(), "Print the version and exit");
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done; 1 a bug; 2 usage or configuration; 3 data unusable; 4 a peer or device\n"
      "failed; 5 the numbers broke; 128+n stopped by signal n.");
  ChosenCommand chosen;
  add_train_command(app, chosen);
  add_config_commands(app, chosen);
  add_schedule_commands(app, chosen);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (argc > 1 && argv[1][0] != '-' && !has_command(app, argv[1])) {
      std::cerr << "headrace: this build has no command '" << argv[1]
                << "'; see `headrace --help`\n";
      return kUsageExit;
    }
    return app.exit(error) == 0 ? 0 : kUsageExit;
  }
  const int code = report(chosen.run ? chosen.run() : Status::ok());
  return code == 0 && chosen.stopped_by_signal != 0 ? kSignalExit + chosen.stopped_by_signal : code;
}

}  // namespace
}  // namespace headrace::cli

int main(int argc, char** argv) {
  try {
    return headrace::cli::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "headrace: internal error: %s\n", error.what());
    return headrace::exit_code(headrace::StatusCode::kInternal);
  }
}
