// The schedules by name: a pure function (P, M, V, options) -> compute-only program.
//
// What it is for: one word of YAML picks a schedule. What it does not do: lower, validate or
// simulate. Thread rule: free functions over constant data, safe on any thread.
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace headrace::schedules {

struct ScheduleSpec {
  std::string name = "1f1b";
  std::int32_t ranks = 1;         // P >= 1
  std::int32_t microbatches = 1;  // M >= 1
  std::int32_t chunks = 1;        // V >= 1
  bool reverse_backward =
      false;  // gpipe: backward in descending order, as in arXiv 1811.06965's figure
};

struct ScheduleInfo {
  std::string_view name;
  std::string_view summary;  // one sentence, with the paper
  std::string_view rule;     // what P, M, V must satisfy, for people
};

[[nodiscard]] std::span<const ScheduleInfo> list_schedules();
// Compute-only actions (F, B, I, W). kConfig says which of P, M, V does not fit, why, and what
// would.
[[nodiscard]] Result<Program> make_program(const ScheduleSpec& spec);

}  // namespace headrace::schedules
