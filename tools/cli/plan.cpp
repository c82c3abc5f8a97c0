#include "tools/cli/plan.hpp"

namespace headrace::cli {

Result<actors::Plan> plan_of(const std::string& path, const config::Config& config) {
  auto plan = actors::make_plan(config);
  if (plan) return plan;
  return Status(plan.status().code(), path + ": " + plan.status().message());
}

}  // namespace headrace::cli
