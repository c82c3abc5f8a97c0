// The version this binary was built as.
//
// What it is for: `headrace --version` and files that name their writer. What it does not do: say
// what the machine offers. Thread rule: free function, safe on any thread.
#pragma once

#include <string>

namespace headrace::cli {

// `headrace 0.1.0`
[[nodiscard]] std::string version_text();

}  // namespace headrace::cli
