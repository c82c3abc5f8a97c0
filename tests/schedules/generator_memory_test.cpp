// Closed forms of what each schedule holds, and every shape of every schedule through the
// validator. HEADRACE_FULL=1 takes all shapes, else a seeded sample.
#include "schedules/passes.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

namespace headrace::schedules {
namespace {

using testing::Shape;
using testing::spec_of;

constexpr std::int32_t kRanksMax = 8;
constexpr std::int32_t kMicrobatchesMax = 24;
constexpr std::int32_t kChunksMax = 4;

// Peak activations of a rank, in chunks.
using PeakRule = std::function<std::int32_t(const Shape& shape, std::int32_t rank)>;

void check_peaks(std::string_view name, const std::vector<std::int32_t>& chunks,
                 const PeakRule& rule) {
  int programs = 0;
  for (const std::int32_t v : chunks)
    for (std::int32_t p = 1; p <= kRanksMax; ++p)
      for (std::int32_t m = 1; m <= kMicrobatchesMax; ++m) {
        const Shape shape{p, m, v};
        const Result<Program> program = make_program(spec_of(name, shape));
        if (!program.is_ok()) continue;
        ++programs;
        CAPTURE(name);
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(v);
        const ProgramFacts facts = validate(*program).value();
        for (std::int32_t r = 0; r < p; ++r) {
          const std::int32_t expected = rule(shape, r);
          if (expected >= 0) CHECK(facts.peak_activations[Rank{r}.index()] == expected);
        }
      }
  CHECK(programs > 0);
}

std::int32_t pytorch_group(const Shape& shape) {
  return shape.microbatches / std::max(1, shape.microbatches / shape.ranks);
}

TEST_CASE("generator: one stage per rank holds what its warm-up says") {
  check_peaks("gpipe", {1}, [](const Shape& s, std::int32_t) { return s.microbatches; });
  check_peaks("1f1b", {1},
              [](const Shape& s, std::int32_t r) { return std::min(s.microbatches, s.ranks - r); });
  check_peaks("eager_1f1b", {1}, [](const Shape& s, std::int32_t r) {
    return std::min(s.microbatches, 2 * (s.ranks - 1 - r) + 1);
  });
  check_peaks("zb_h1", {1},
              [](const Shape& s, std::int32_t) { return std::min(s.microbatches, s.ranks); });
  check_peaks("zb_h2", {1}, [](const Shape& s, std::int32_t) {
    return std::min(s.microbatches, 2 * s.ranks - 1);
  });
}

TEST_CASE("generator: several chunks per rank hold what their groups say") {
  check_peaks("interleaved_1f1b", {1, 2, 3, 4}, [](const Shape& s, std::int32_t r) {
    return std::min(s.microbatches * s.chunks,
                    (s.chunks - 1) * pytorch_group(s) + 2 * (s.ranks - 1 - r) + 1);
  });
  check_peaks("looped_bfs", {1, 2, 3, 4},
              [](const Shape& s, std::int32_t) { return s.microbatches * s.chunks; });
  check_peaks("interleaved_zb", {1, 2, 3, 4}, [](const Shape& s, std::int32_t) {
    return std::min(s.microbatches * s.chunks, (s.chunks - 1) * pytorch_group(s) + s.ranks);
  });
  check_peaks("forward_only", {1, 2, 3, 4}, [](const Shape&, std::int32_t) { return 1; });
}

TEST_CASE("generator: V shapes hold what their papers say") {
  check_peaks("dualpipev", {2}, [](const Shape& s, std::int32_t) { return 2 * s.ranks + 1; });
  check_peaks("hanayo", {2, 4}, [](const Shape& s, std::int32_t r) {
    return s.microbatches % s.ranks == 0 ? s.chunks * s.ranks - (s.ranks - 1 - r) : -1;
  });
  check_peaks("forward_only_v", {2}, [](const Shape&, std::int32_t) { return 1; });
}

// The bound of the papers' tables is reached by some rank and exceeded by none.
void check_largest_peak(std::string_view name, std::int32_t (*bound)(std::int32_t)) {
  for (std::int32_t p = 1; p <= kRanksMax; ++p)
    for (std::int32_t m = 1; m <= kMicrobatchesMax; ++m) {
      CAPTURE(name);
      CAPTURE(p);
      CAPTURE(m);
      const ProgramFacts facts = validate(testing::program_of(name, {p, m, 2})).value();
      const auto largest =
          std::max_element(facts.peak_activations.begin(), facts.peak_activations.end());
      CHECK(*largest == std::min(2 * m, 2 * bound(p)));
    }
}

TEST_CASE("generator: zbv holds what 1f1b holds and v_half and v_min a half and a third of it") {
  check_largest_peak("zbv", [](std::int32_t p) { return p; });
  check_largest_peak("v_half", [](std::int32_t p) { return (p + 2) / 2; });
  check_largest_peak("v_min", [](std::int32_t p) { return (p + 4) / 3; });
}

TEST_CASE("generator: two replicas hold what their papers say") {
  check_peaks("dualpipe", {1}, [](const Shape& s, std::int32_t) { return s.ranks + 1; });
  check_peaks("chimera", {1}, [](const Shape& s, std::int32_t r) {
    return s.microbatches % s.ranks == 0 ? s.ranks / 2 + 1 + std::min(r, s.ranks - 1 - r) : -1;
  });
}

// Peak of a rank where I frees `released` of an activation and W the rest, in eighths.
std::int32_t peak_in_eighths(const std::vector<Action>& list, std::int32_t released) {
  std::int32_t held = 0;
  std::int32_t peak = 0;
  for (const Action& action : list) {
    if (action.kind == ActionKind::kForward) held += 8;
    if (action.kind == ActionKind::kBackwardInput) held -= released;
    if (action.kind == ActionKind::kBackwardWeight) held -= 8 - released;
    peak = std::max(peak, held);
  }
  return peak;
}

TEST_CASE("generator: zb_h1 and zb_h2 hold M_B and M_W of the paper on each rank") {
  for (std::int32_t p = 1; p <= kRanksMax; ++p)
    for (std::int32_t r = 0; r < p; ++r)
      for (const std::int32_t released : {0, 2, 4}) {
        CAPTURE(p);
        CAPTURE(r);
        const std::int32_t weight = 8 - released;  // M_W, where M_B is 8
        const auto list = [&](std::string_view name) {
          return testing::program_of(name, {p, kMicrobatchesMax}).actions[Rank{r}.index()];
        };
        CHECK(peak_in_eighths(list("zb_h1"), released) == (p - r) * 8 + r * weight);
        CHECK(peak_in_eighths(list("zb_h2"), released) == (2 * p - 2 * r - 1) * 8 + 2 * r * weight);
      }
}

TEST_CASE("generator: every schedule is valid with ascending weights and the step end") {
  constexpr std::uint32_t kSeed = 7;
  const bool takes_all = std::getenv("HEADRACE_FULL") != nullptr;
  std::mt19937 random(kSeed);
  int programs = 0;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;  // a search per shape, with tests of its own
    for (std::int32_t p = 1; p <= kRanksMax; ++p)
      for (std::int32_t m = 1; m <= kMicrobatchesMax; ++m)
        for (std::int32_t v = 1; v <= kChunksMax; ++v) {
          if (!takes_all && random() % 3 != 0) continue;
          ScheduleSpec spec = spec_of(info.name, {p, m, v});
          spec.descending_backward = info.takes_descending && random() % 2 == 0;
          const Result<Program> program = make_program(spec);
          if (!program.is_ok()) continue;
          ++programs;
          CAPTURE(kSeed);
          CAPTURE(info.name);
          CAPTURE(p);
          CAPTURE(m);
          CAPTURE(v);
          const Result<ProgramFacts> facts =
              validate(with_step_end(with_ascending_weights(*program), {true}));
          CHECK_MESSAGE(facts.is_ok(), facts.status().message());
        }
  }
  CHECK(programs > 1000);
}

}  // namespace
}  // namespace headrace::schedules
