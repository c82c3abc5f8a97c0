#include "schedules/registry.hpp"

#include "schedules/detail/cell_index.hpp"
#include "schedules/detail/generators.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace headrace::schedules {
namespace {

// More than any machine we know of: beyond it a typing error is likelier than a plan.
constexpr std::int32_t kRanksMax = 4096;
using detail::kCellsMax;

struct ScheduleEntry {
  ScheduleInfo info;
  bool one_chunk;      // V must be 1
  bool takes_reverse;  // accepts reverse_backward
  Result<Program> (*make)(const ScheduleSpec&);
};

constexpr std::array kEntries{
    ScheduleEntry{
        {"gpipe", "All forwards, then all backwards; holds M activations (arXiv 1811.06965).",
         "V = 1, any P >= 1 and M >= 1"},
        true,
        true,
        detail::make_gpipe},
    ScheduleEntry{{"1f1b",
                   "One forward, one backward after a short warm-up; holds min(M, P - rank) "
                   "activations (arXiv 2006.09503).",
                   "V = 1, any P >= 1 and M >= 1"},
                  true,
                  false,
                  detail::make_1f1b},
    ScheduleEntry{
        {"interleaved_1f1b",
         "1F1B over V chunks per rank: a bubble V times smaller for more transfers (arXiv "
         "2104.04473).",
         "V >= 1, and M a multiple of max(1, M div P)"},
        false,
        false,
        detail::make_interleaved_1f1b},
    ScheduleEntry{{"forward_only", "Forwards only, for evaluation and generation; keeps nothing.",
                   "any P >= 1, M >= 1 and V >= 1"},
                  false,
                  false,
                  detail::make_forward_only},
};

constexpr auto kInfos = [] {
  std::array<ScheduleInfo, kEntries.size()> infos{};
  for (std::size_t i = 0; i < infos.size(); ++i) infos[i] = kEntries[i].info;
  return infos;
}();

Status unknown_name(const ScheduleSpec& spec) {
  std::string names;
  for (const ScheduleInfo& info : kInfos)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return {StatusCode::kConfig,
          "schedule '" + spec.name + "' is unknown; the schedules are " + names};
}

Status check_sizes(const ScheduleSpec& spec) {
  if (spec.ranks < 1 || spec.microbatches < 1 || spec.chunks < 1)
    return detail::refuse(spec, "P, M and V must each be at least 1");
  if (spec.ranks > kRanksMax)
    return detail::refuse(spec, "P must be at most " + std::to_string(kRanksMax));
  const std::int64_t per_microbatch = std::int64_t{spec.ranks} * spec.chunks;
  if (per_microbatch > kCellsMax)
    return detail::refuse(spec, "P x V is " + std::to_string(per_microbatch) + " stages, at most " +
                                    std::to_string(kCellsMax) + " are possible; lower V");
  const std::int64_t microbatches_max = kCellsMax / per_microbatch;
  if (spec.microbatches > microbatches_max)
    return detail::refuse(spec, "P x V x M must be at most " + std::to_string(kCellsMax) +
                                    "; with this P and V, M up to " +
                                    std::to_string(microbatches_max) + " fits");
  return Status::ok();
}

}  // namespace

namespace detail {

Program empty_program(const ScheduleSpec& spec) {
  Program program;
  program.schedule = spec.name;
  program.ranks = spec.ranks;
  program.chunks = spec.chunks;
  program.stages = spec.ranks * spec.chunks;
  program.microbatches = spec.microbatches;
  program.actions.resize(static_cast<std::size_t>(spec.ranks));
  return program;
}

Status refuse(const ScheduleSpec& spec, std::string_view why) {
  return {StatusCode::kConfig,
          "schedule " + spec.name + " cannot run P=" + std::to_string(spec.ranks) +
              " ranks, M=" + std::to_string(spec.microbatches) +
              " microbatches, V=" + std::to_string(spec.chunks) + " chunks: " + std::string(why)};
}

}  // namespace detail

std::span<const ScheduleInfo> list_schedules() { return kInfos; }

Result<Program> make_program(const ScheduleSpec& spec) {
  const auto* entry = std::find_if(kEntries.begin(), kEntries.end(), [&](const ScheduleEntry& e) {
    return e.info.name == spec.name;
  });
  if (entry == kEntries.end()) return unknown_name(spec);
  HEADRACE_RETURN_IF_ERROR(check_sizes(spec));
  if (entry->one_chunk && spec.chunks != 1)
    return detail::refuse(spec,
                          "it has one stage per rank, so V must be 1; set V to 1, or use "
                          "interleaved_1f1b for several chunks");
  if (spec.descending_backward && !entry->takes_reverse)
    return detail::refuse(spec, "reverse_backward is an option of gpipe only; leave it out");
  return entry->make(spec);
}

}  // namespace headrace::schedules
