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
  Result<Program> (*make)(const ScheduleSpec&);
};

constexpr std::array kEntries{
    ScheduleEntry{{.name = "gpipe",
                   .summary = "All forwards, then all backwards; holds M activations (arXiv "
                              "1811.06965).",
                   .rule = "V = 1, any P >= 1 and M >= 1",
                   .chunks = 1,
                   .takes_descending = true},
                  detail::make_gpipe},
    ScheduleEntry{{.name = "1f1b",
                   .summary = "One forward, one backward after a short warm-up; holds min(M, P - "
                              "rank) activations (arXiv 2006.09503).",
                   .rule = "V = 1, any P >= 1 and M >= 1",
                   .chunks = 1},
                  detail::make_1f1b},
    ScheduleEntry{{.name = "eager_1f1b",
                   .summary = "1f1b with twice the warm-up: more activations, but a hop's latency "
                              "is paid 2(P-1) times only (arXiv 2006.09503).",
                   .rule = "V = 1, any P >= 1 and M >= 1",
                   .chunks = 1},
                  detail::make_eager_1f1b},
    ScheduleEntry{{.name = "interleaved_1f1b",
                   .summary = "1F1B over V chunks per rank: a bubble V times smaller for more "
                              "transfers (arXiv 2104.04473).",
                   .rule = "V >= 1, and M a multiple of max(1, M div P); or a group of P to M "
                           "microbatches that leaves none or at least P over",
                   .takes_group = true},
                  detail::make_interleaved_1f1b},
    ScheduleEntry{{.name = "looped_bfs",
                   .summary = "All microbatches of a chunk, then of the next; holds M V "
                              "activations (arXiv 2211.05953).",
                   .rule = "any P >= 1, M >= 1 and V >= 1",
                   .takes_descending = true},
                  detail::make_looped_bfs},
    ScheduleEntry{
        {.name = "zb_h1",
         .summary = "Zero bubble with 1f1b's memory: the backward is split, W fills waits "
                    "(arXiv 2401.10241).",
         .rule = "V = 1, any P >= 1 and M >= 1",
         .chunks = 1,
         .splits_backward = true},
        detail::make_zb_h1},
    ScheduleEntry{{.name = "zb_h2",
                   .summary = "Zero bubble with twice 1f1b's memory; no span bubble for F = I = W "
                              "and M >= 2P-1 (arXiv 2401.10241).",
                   .rule = "V = 1, any P >= 1 and M >= 1",
                   .chunks = 1,
                   .splits_backward = true},
                  detail::make_zb_h2},
    ScheduleEntry{{.name = "interleaved_zb",
                   .summary = "interleaved_1f1b with a split backward and half its warm-up "
                              "(PyTorch's ScheduleInterleavedZeroBubble, arXiv 2401.10241).",
                   .rule = "as interleaved_1f1b",
                   .splits_backward = true,
                   .takes_group = true},
                  detail::make_interleaved_zb},
    ScheduleEntry{{.name = "zbv",
                   .summary = "Zero bubble on two chunks in V shape with 1f1b's memory (arXiv "
                              "2401.10241; PyTorch's ScheduleZBVZeroBubble).",
                   .rule = "V = 2, any P >= 1 and M >= 1",
                   .placement = Placement::kVShape,
                   .chunks = 2,
                   .splits_backward = true},
                  detail::make_zbv},
    ScheduleEntry{{.name = "v_half",
                   .summary = "V shape with about half of 1f1b's activations (arXiv 2405.15362).",
                   .rule = "V = 2, any P >= 1 and M >= 1",
                   .placement = Placement::kVShape,
                   .chunks = 2,
                   .splits_backward = true},
                  detail::make_v_half},
    ScheduleEntry{
        {.name = "v_min",
         .summary = "V shape with about a third of 1f1b's activations (arXiv 2405.15362).",
         .rule = "V = 2, any P >= 1 and M >= 1",
         .placement = Placement::kVShape,
         .chunks = 2,
         .splits_backward = true},
        detail::make_v_min},
    ScheduleEntry{{.name = "dualpipe",
                   .summary = "Both directions at once on two replicas, forwards paired with "
                              "backwards (DeepSeek-V3, arXiv 2412.19437).",
                   .rule = "V = 1, P and M even, M >= 2P",
                   .placement = Placement::kBidirectional,
                   .chunks = 1,
                   .splits_backward = true},
                  detail::make_dualpipe},
    ScheduleEntry{{.name = "dualpipev",
                   .summary = "dualpipe cut in half: two chunks in V shape, one replica "
                              "(deepseek-ai/DualPipe; PyTorch's ScheduleDualPipeV).",
                   .rule = "V = 2, M >= 2P",
                   .placement = Placement::kVShape,
                   .chunks = 2,
                   .splits_backward = true},
                  detail::make_dualpipev},
    ScheduleEntry{{.name = "chimera",
                   .summary = "Two pipelines in opposite directions on two replicas (arXiv "
                              "2107.06925).",
                   .rule = "V = 1, P and M even, M at most P or a multiple of P",
                   .placement = Placement::kBidirectional,
                   .chunks = 1},
                  detail::make_chimera},
    ScheduleEntry{{.name = "hanayo",
                   .summary = "Waves: chimera's slots folded onto one replica (arXiv 2308.15762).",
                   .rule = "V even, M at most P or a multiple of P",
                   .placement = Placement::kVShape,
                   .even_chunks = true},
                  detail::make_hanayo},
    ScheduleEntry{{.name = "auto",
                   .summary = "Searched for given times, latency and memory; never worse than the "
                              "named ones (the idea of arXiv 2401.10241).",
                   .rule = "any P >= 1, M >= 1 and V >= 1",
                   .splits_backward = true},
                  detail::make_auto},
    ScheduleEntry{{.name = "forward_only",
                   .summary = "Forwards only, for evaluation and generation; keeps nothing.",
                   .rule = "any P >= 1, M >= 1 and V >= 1",
                   .forward_only = true},
                  detail::make_forward_only},
    ScheduleEntry{{.name = "forward_only_v",
                   .summary = "Forwards only on two chunks in V shape; keeps nothing.",
                   .rule = "V = 2, any P >= 1 and M >= 1",
                   .placement = Placement::kVShape,
                   .chunks = 2,
                   .forward_only = true},
                  detail::make_forward_only_v},
};

constexpr auto kInfos = [] {
  std::array<ScheduleInfo, kEntries.size()> infos{};
  for (std::size_t i = 0; i < infos.size(); ++i) infos[i] = kEntries[i].info;
  return infos;
}();

const ScheduleEntry* find_entry(std::string_view name) {
  const auto* entry = std::find_if(kEntries.begin(), kEntries.end(),
                                   [&](const ScheduleEntry& e) { return e.info.name == name; });
  return entry == kEntries.end() ? nullptr : entry;
}

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

Status check_chunks(const ScheduleSpec& spec, const ScheduleInfo& info) {
  if (info.chunks == 1 && spec.chunks != 1)
    return detail::refuse(spec,
                          "it has one stage per rank, so V must be 1; set V to 1, or use "
                          "interleaved_1f1b for several chunks");
  if (info.chunks == 2 && spec.chunks != 2)
    return detail::refuse(spec,
                          "it has two stages per rank in V shape, so V must be 2; set V to 2");
  if (info.even_chunks && spec.chunks % 2 != 0)
    return detail::refuse(spec, "a wave goes down and up again, so V must be even; set V to " +
                                    std::to_string(spec.chunks + 1));
  return Status::ok();
}

Status check_options(const ScheduleSpec& spec, const ScheduleInfo& info) {
  if (spec.descending_backward && !info.takes_descending)
    return detail::refuse(spec,
                          "a descending backward is an option of gpipe and looped_bfs only; leave "
                          "it out");
  if (spec.group != 0 && !info.takes_group)
    return detail::refuse(spec,
                          "a group is an option of interleaved_1f1b and interleaved_zb only; leave "
                          "it out");
  return Status::ok();
}

}  // namespace

namespace detail {

Program empty_program(const ScheduleSpec& spec, Placement placement) {
  Program program;
  program.schedule = spec.name;
  program.ranks = spec.ranks;
  program.chunks = spec.chunks;
  program.stages = spec.ranks * spec.chunks;
  program.microbatches = spec.microbatches;
  program.placement = placement;
  program.actions.resize(static_cast<std::size_t>(spec.ranks));
  return program;
}

Status refuse(const ScheduleSpec& spec, std::string_view why) {
  return {StatusCode::kConfig,
          "schedule " + spec.name + " cannot run P=" + std::to_string(spec.ranks) +
              " ranks, M=" + std::to_string(spec.microbatches) +
              " microbatches, V=" + std::to_string(spec.chunks) + " chunks: " + std::string(why)};
}

std::string nearest_even(std::string_view what, std::int32_t odd) {
  const std::string above = std::to_string(odd + 1);
  if (odd == 1) return "the smallest " + std::string(what) + " that fits is " + above;
  return "the nearest " + std::string(what) + " that fit are " + std::to_string(odd - 1) + " and " +
         above;
}

std::string nearest_microbatches(const ScheduleSpec& spec,
                                 bool (*fits)(std::int32_t ranks, std::int32_t m)) {
  std::int32_t below = spec.microbatches - 1;
  while (below > 0 && !fits(spec.ranks, below)) --below;
  std::int32_t above = spec.microbatches + 1;
  while (!fits(spec.ranks, above)) ++above;
  if (below == 0) return "the smallest M that fits is " + std::to_string(above);
  return "the nearest M that fit are " + std::to_string(below) + " and " + std::to_string(above);
}

}  // namespace detail

std::span<const ScheduleInfo> list_schedules() { return kInfos; }

const ScheduleInfo* find_schedule(std::string_view name) {
  const ScheduleEntry* entry = find_entry(name);
  return entry == nullptr ? nullptr : &entry->info;
}

Result<Program> make_program(const ScheduleSpec& spec) {
  const ScheduleEntry* entry = find_entry(spec.name);
  if (entry == nullptr) return unknown_name(spec);
  HEADRACE_RETURN_IF_ERROR(check_sizes(spec));
  HEADRACE_RETURN_IF_ERROR(check_chunks(spec, entry->info));
  HEADRACE_RETURN_IF_ERROR(check_options(spec, entry->info));
  return entry->make(spec);
}

}  // namespace headrace::schedules
