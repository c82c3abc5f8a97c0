// Counts every allocation of this test program through operator new.
//
// What it is for: showing that a steady state does not allocate. What it does not do: see malloc.
// Thread rule: the count is atomic; any thread.
#pragma once

#include <cstdint>

namespace headrace::data {

[[nodiscard]] std::int64_t allocation_count();

}  // namespace headrace::data
