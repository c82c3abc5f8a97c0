// The generators behind the registry's table, one file each.
//
// What it is for: registry.cpp calls them by name. What they do not do: check P, M, V >= 1 and the
// size limit (make_program did), or lower the program. Thread rule: free functions, safe on any
// thread.
#pragma once

#include "schedules/registry.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::schedules::detail {

[[nodiscard]] Result<Program> make_gpipe(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_1f1b(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_eager_1f1b(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_interleaved_1f1b(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_looped_bfs(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_zb_h1(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_zb_h2(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_interleaved_zb(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_zbv(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_v_half(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_v_min(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_dualpipe(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_dualpipev(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_chimera(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_hanayo(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_forward_only(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_forward_only_v(const ScheduleSpec& spec);
[[nodiscard]] Result<Program> make_auto(const ScheduleSpec& spec);  // search.cpp

// A program with the shape of `spec` and empty lists.
[[nodiscard]] Program empty_program(const ScheduleSpec& spec,
                                    Placement placement = Placement::kLoop);
// kConfig that names the schedule, P, M and V, then `why`.
[[nodiscard]] Status refuse(const ScheduleSpec& spec, std::string_view why);

// "the nearest P that fit are 2 and 4", for an odd number.
[[nodiscard]] std::string nearest_even(std::string_view what, std::int32_t odd);
// The same for M, by asking `fits`, which must hold for some M above spec's.
[[nodiscard]] std::string nearest_microbatches(const ScheduleSpec& spec,
                                               bool (*fits)(std::int32_t ranks, std::int32_t m));

inline Action make_action(ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
  return {kind, StageIndex{stage}, MicrobatchIndex{microbatch}};
}

}  // namespace headrace::schedules::detail
