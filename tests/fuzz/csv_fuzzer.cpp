#include "tests/fuzz/entries.hpp"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::try_csv({reinterpret_cast<const char*>(data), size});
  return 0;
}
