// The published times of arXiv 2401.10241: targets, bounds that prove some rows the best there are,
// and the table of docs/SCHEDULES.md (printed by the first case; HEADRACE_FULL=1 prints the rows of
// effort 10).
#include "tests/schedules/search_cases.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>

namespace headrace::schedules::testing {
namespace {

using schedules::detail::make_auto;

constexpr double kForward = 18.522;
constexpr double kInput = 18.086;
constexpr double kWeight = 9.337;
constexpr double kHop = 0.601;
constexpr std::int32_t kRanks = 8;
constexpr std::int32_t kMicrobatches = 24;

// 1 - M_W / M_B with the paper's M_B = sbh (34 + 5 a s / h) and M_W = 32 sbh, for a = 24 heads,
// s = 1024 tokens and h = 2304.
constexpr double kReleased = 1 - 32 / (34 + 5 * 24 * 1024.0 / 2304);

double rate_of(double cost) { return 1 - kMicrobatches * (kForward + kInput + kWeight) / cost; }

void print_row(const char* name, const Program& program, const SearchGoal& goal) {
  const Price price = price_of(program, goal);
  std::printf("| %-22s | %d | %4d | %.4f | %8.2f | %8.2f |\n", name, program.chunks,
              peak_of(program), price.bubble_span, price.span, price.makespan);
}

// The search's best for these chunks and this limit, beside it the row in the printed table.
Price print_auto(const char* name, std::int32_t chunks, std::int32_t limit, double released) {
  ScheduleSpec spec = paper_spec(chunks, limit);
  spec.search.released_at_input = released;
  if (std::getenv("HEADRACE_FULL") != nullptr) spec.search.effort = 10;
  const Program program = make_auto(spec).value();
  if (released == 0) CHECK(peak_of(program) <= limit);
  print_row(name, program, spec.search);
  return price_of(program, spec.search);
}

TEST_CASE("search: auto on the published times beside the named schedules") {
  std::printf(
      "| schedule | V | peak | bubble span | span cost | makespan |\n|---|---|---|---|---|---|\n");
  for (const std::int32_t chunks : {1, 2}) {
    const ScheduleSpec spec = paper_spec(chunks, 0);
    for (const Program& program : named_programs(spec))
      print_row(program.schedule.c_str(), program, spec.search);
  }
  const Price one_p = print_auto("auto P", 1, kRanks, 0);
  const Price one_2p = print_auto("auto 2P", 1, 2 * kRanks, 0);
  const Price paper_2p = print_auto("auto 2P M_B (paper)", 1, 2 * kRanks, kReleased);
  const Price two_p = print_auto("auto P", 2, 2 * kRanks, 0);
  const Price two_2p = print_auto("auto 2P", 2, 4 * kRanks, 0);

  CHECK(two_p.bubble_span < 0.1585);  // zb_h1
  CHECK(two_2p.bubble_span <= 0.06);  // zb_h2: 0.1083
  CHECK(paper_2p.bubble_span <= 0.06);

  // One stage per rank, activations held from F to W: no order is better than these two. The last
  // rank starts after 7 (F + hop); before its last F it has run 24 - limit W, before its last I all
  // F and I; from there the gradient goes 7 hops down to rank 0, which began at 0 and ends with W.
  const double way = (kRanks - 1) * (kForward + kInput + 2 * kHop);
  const double bound_2p =
      way + kMicrobatches * (kForward + kInput) + (kMicrobatches - 2 * kRanks) * kWeight + kWeight;
  CHECK(one_2p.span == doctest::Approx(bound_2p));
  CHECK(rate_of(bound_2p) == doctest::Approx(0.1015).epsilon(0.001));
  // Where I frees most of an activation, the last rank needs no W before its last I.
  const double bound_paper = way + kMicrobatches * (kForward + kInput) + kWeight;
  CHECK(paper_2p.span == doctest::Approx(bound_paper));
  CHECK(rate_of(bound_paper) == doctest::Approx(0.0433).epsilon(0.001));
  // Rank 0 gets its first gradient after 8 F and 7 I, and can start F23 only once 16 W are done;
  // from there F23 goes up and its gradient down.
  const double first_gradient = way + kForward;
  const double bound_p =
      first_gradient + 15 * kForward + 16 * (kInput + kWeight) + way + kForward + kInput + kWeight;
  CHECK(one_p.span == doctest::Approx(bound_p));
  CHECK(rate_of(bound_p) == doctest::Approx(0.1585).epsilon(0.001));
}

}  // namespace
}  // namespace headrace::schedules::testing
