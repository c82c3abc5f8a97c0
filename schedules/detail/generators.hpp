// The generators behind the registry's table, one file each.
//
// What it is for: registry.cpp calls them by name. What they do not do: check P, M, V >= 1 and the
// size limit (make_program did), or lower the program. Thread rule: free functions, safe on any
// thread.
#pragma once

#include "schedules/registry.hpp"

namespace headrace::schedules::detail {

[[nodiscard]] Result<Program> make_gpipe(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_1f1b(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_interleaved_1f1b(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_forward_only(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_auto(const ScheduleSpec& spec);  // search.cpp

// A program with the shape of `spec` (loop placement) and empty lists.
[[nodiscard]] Program empty_program(const ScheduleSpec& spec);
// kConfig that names the schedule, P, M and V, then `why`.
[[nodiscard]] Status refuse(const ScheduleSpec& spec, std::string_view why);

inline Action make_action(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
  return {kind, StageIndex{stage}, MicrobatchIndex{microbatch}};
}

}  // namespace headrace::schedules::detail
