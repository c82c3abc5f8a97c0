#include "tools/cli/plan.hpp"

#include "runtime/actors/plan.hpp"

#include <iostream>

namespace headrace::cli {

Status print_plan(const config::Config& config) {
  const auto plan = actors::make_plan(config);
  if (!plan) return plan.status();
  std::cout << actors::describe(*plan);
  return Status::ok();
}

}  // namespace headrace::cli
