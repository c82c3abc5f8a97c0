#include "runtime/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace headrace {

void check_failed(const char* condition, const char* file, int line, const std::string& values) {
  std::fprintf(stderr, "headrace: bug: check failed: %s at %s:%d:%s\n", condition, file, line,
               values.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace headrace
