#include "tools/cli/plan.hpp"

namespace headrace::cli {

Status print_plan(const config::Config&) { return Status::ok(); }

}  // namespace headrace::cli
