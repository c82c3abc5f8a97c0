#include "tools/cli/version.hpp"

namespace headrace::cli {

std::string version_text() { return "headrace " HEADRACE_VERSION; }

}  // namespace headrace::cli
