// Prints the 1F1B program of three ranks and four microbatches, built with the installed library.
#include "runtime/base/status.hpp"
#include "schedules/csv.hpp"
#include "schedules/registry.hpp"

#include <iostream>

int main() {
  headrace::schedules::ScheduleSpec spec;
  spec.name = "1f1b";
  spec.ranks = 3;
  spec.microbatches = 4;
  const auto program = headrace::schedules::make_program(spec);
  if (!program.is_ok()) {
    std::cerr << program.status().message() << '\n';
    return headrace::exit_code(program.status().code());
  }
  std::cout << headrace::schedules::to_csv(*program);
  return 0;
}
