#include "schedules/registry.hpp"

#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace headrace::schedules {
namespace {

using testing::contains;
using testing::Shape;
using testing::spec_of;

// P = 4, M = 8 and the fewest chunks the schedule takes.
ScheduleSpec fitting_spec(const ScheduleInfo& info) {
  return spec_of(info.name, {4, 8, info.even_chunks || info.chunks == 2 ? 2 : 1});
}

std::string refusal(const ScheduleSpec& spec) {
  const Result<Program> program = make_program(spec);
  REQUIRE_FALSE(program.is_ok());
  CHECK(program.status().code() == StatusCode::kConfig);
  return program.status().message();
}

TEST_CASE("registry: every schedule of the field is listed with a summary and a rule") {
  std::set<std::string_view> names;
  for (const ScheduleInfo& info : list_schedules()) {
    CAPTURE(info.name);
    names.insert(info.name);
    CHECK_FALSE(info.summary.empty());
    CHECK_FALSE(info.rule.empty());
    CHECK(find_schedule(info.name) != nullptr);
    const Program program = make_program(fitting_spec(info)).value();
    CHECK(program.forward_only == info.forward_only);
    if (info.name == "auto") continue;  // its order decides
    CHECK(program.placement == info.placement);
    bool splits = false;
    for (const std::vector<Action>& list : program.actions)
      for (const Action& action : list) splits |= action.kind == ActionKind::kBackwardInput;
    CHECK(splits == info.splits_backward);
  }
  CHECK(names == std::set<std::string_view>{
                     "1f1b", "auto", "chimera", "dualpipe", "dualpipev", "eager_1f1b",
                     "forward_only", "forward_only_v", "gpipe", "hanayo", "interleaved_1f1b",
                     "interleaved_zb", "looped_bfs", "v_half", "v_min", "zb_h1", "zb_h2", "zbv"});
  CHECK(find_schedule("zb_h3") == nullptr);
}

TEST_CASE("registry: an unknown name is refused with the known ones") {
  const std::string text = refusal(spec_of("1f1B", {2, 2}));
  CHECK(contains(text, "'1f1B'"));
  CHECK(contains(text, "gpipe, 1f1b, eager_1f1b, interleaved_1f1b"));
}

TEST_CASE("registry: gpipe and 1f1b refuse several chunks with P M V and a way out") {
  for (const char* name : {"gpipe", "1f1b"}) {
    const std::string text = refusal(spec_of(name, {4, 8, 2}));
    CHECK(contains(text, std::string("schedule ") + name));
    CHECK(contains(text, "P=4"));
    CHECK(contains(text, "M=8"));
    CHECK(contains(text, "V=2"));
    CHECK(contains(text, "interleaved_1f1b"));
  }
}

TEST_CASE("registry: zero negative and absurd sizes are refused without work") {
  for (const ScheduleInfo& info : list_schedules()) {
    CAPTURE(info.name);
    CHECK(contains(refusal(spec_of(info.name, {0, 1, 1})), "at least 1"));
    CHECK(contains(refusal(spec_of(info.name, {1, 0, 1})), "at least 1"));
    CHECK(contains(refusal(spec_of(info.name, {1, 1, 0})), "at least 1"));
    CHECK(contains(refusal(spec_of(info.name, {-3, 1, 1})), "P=-3"));
    CHECK(contains(refusal(spec_of(info.name, {4097, 1, 1})), "at most 4096"));
    CHECK(contains(refusal(spec_of(info.name, {2147483647, 2147483647, 2147483647})), "4096"));
    CHECK(contains(refusal(spec_of(info.name, {4, 2500001, 1})), "M up to 2500000"));
    CHECK(contains(refusal(spec_of(info.name, {4096, 2147483647, 2147483647})), "lower V"));
  }
}

TEST_CASE("registry: an option is refused where it means nothing") {
  for (const ScheduleInfo& info : list_schedules()) {
    CAPTURE(info.name);
    ScheduleSpec spec = fitting_spec(info);
    spec.descending_backward = true;
    CHECK(make_program(spec).is_ok() == info.takes_descending);
    spec.descending_backward = false;
    spec.group = 4;
    CHECK(make_program(spec).is_ok() == info.takes_group);
  }
}

TEST_CASE("registry: a schedule that needs other chunks says which") {
  for (const ScheduleInfo& info : list_schedules()) {
    CAPTURE(info.name);
    if (info.chunks == 2)
      CHECK(contains(refusal(spec_of(info.name, {4, 8, 1})), "V must be 2; set V to 2"));
    if (info.even_chunks)
      CHECK(contains(refusal(spec_of(info.name, {4, 8, 3})), "V must be even; set V to 4"));
  }
}

TEST_CASE("registry: what does not exist names the nearest numbers that do") {
  CHECK(contains(refusal(spec_of("dualpipe", {3, 8})), "the nearest P that fit are 2 and 4"));
  CHECK(contains(refusal(spec_of("dualpipe", {4, 6})), "the smallest M that fits is 8"));
  CHECK(contains(refusal(spec_of("dualpipev", {4, 7, 2})), "the smallest M that fits is 8"));
  CHECK(contains(refusal(spec_of("chimera", {1, 2})), "the smallest P that fits is 2"));
  CHECK(contains(refusal(spec_of("chimera", {4, 5})), "the nearest M that fit are 4 and 8"));
  CHECK(contains(refusal(spec_of("chimera", {4, 6})), "the nearest M that fit are 4 and 8"));
  CHECK(contains(refusal(spec_of("hanayo", {4, 9, 2})), "the nearest M that fit are 8 and 12"));
}

TEST_CASE("registry: the group rule of Megatron is kept and refused with the numbers") {
  ScheduleSpec spec = spec_of("interleaved_1f1b", {4, 10, 2});
  spec.group = 6;  // groups of 6 and 4
  const Program program = make_program(spec).value();
  CHECK(to_string(program.actions[0][5]) == "0F5");
  CHECK(to_string(program.actions[0][6]) == "4F0");
  CHECK(validate(program).is_ok());
  spec.group = 8;
  CHECK(contains(refusal(spec), "leaves a last group of 2, which must be at least P"));
  spec.group = 3;
  CHECK(contains(refusal(spec), "must be at least P and at most M"));
  spec.group = 11;
  CHECK(contains(refusal(spec), "must be at least P and at most M"));
}

TEST_CASE("registry: gpipe in reverse runs the last microbatch first in the backward") {
  ScheduleSpec spec = spec_of("gpipe", {2, 3});
  spec.descending_backward = true;
  const Program program = make_program(spec).value();
  const Program expected =
      testing::program_of_rows({"0F0,0F1,0F2,0B2,0B1,0B0", "1F0,1F1,1F2,1B2,1B1,1B0"}, 1, 3);
  CHECK(program.actions == expected.actions);
  CHECK(validate(program).is_ok());
}

TEST_CASE(
    "case C35: interleaved takes any M that its rounds divide and names the neighbours else") {
  for (std::int32_t m : {2, 3, 5, 6, 7, 8, 10})
    CHECK(make_program(spec_of("interleaved_1f1b", {4, m, 2})).is_ok());
  const std::string text = refusal(spec_of("interleaved_1f1b", {4, 9, 2}));
  CHECK(contains(text, "P=4"));
  CHECK(contains(text, "M=9"));
  CHECK(contains(text, "V=2"));
  CHECK(contains(text, "max(1, M div P) = 2"));
  CHECK(contains(text, "8 and 10"));
}

TEST_CASE("registry: the M that a refusal proposes are accepted and the nearest") {
  int refused = 0;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;
    for (std::int32_t p = 1; p <= 8; ++p) {
      const std::int32_t v = info.chunks == 1 ? 1 : 2;
      const auto accepts = [&](std::int32_t m) {
        return make_program(spec_of(info.name, {p, m, v})).is_ok();
      };
      if (!accepts(8 * p)) continue;  // P itself does not fit
      std::int32_t below = 0;
      for (std::int32_t m = 1; m <= 40; ++m) {
        if (accepts(m)) {
          below = m;
          continue;
        }
        ++refused;
        std::int32_t above = m + 1;
        while (!accepts(above)) ++above;
        const std::string expected = below == 0
                                         ? "the smallest M that fits is " + std::to_string(above)
                                         : "the nearest M that fit are " + std::to_string(below) +
                                               " and " + std::to_string(above);
        CAPTURE(info.name);
        CAPTURE(p);
        CAPTURE(m);
        CHECK(contains(refusal(spec_of(info.name, {p, m, v})), expected));
      }
    }
  }
  CHECK(refused > 500);
}

TEST_CASE("registry: the page of schedules has a row for each with its rule") {
  std::ifstream in(HEADRACE_GOLDEN_DIR "/../../../docs/SCHEDULES.md");
  REQUIRE(in.good());
  std::ostringstream page;
  page << in.rdbuf();
  for (const ScheduleInfo& info : list_schedules()) {
    const std::string row =
        "\n| `" + std::string(info.name) + "` | " + std::string(info.rule) + " | ";
    CHECK_MESSAGE(contains(page.str(), row), row);
  }
}

TEST_CASE("registry: placement maps stages to ranks as documented") {
  Program program;
  program.ranks = 3;
  program.stages = 9;
  program.microbatches = 4;
  const auto rank = [&](std::int32_t s, std::int32_t m) {
    return program.rank_of(StageIndex{s}, MicrobatchIndex{m}).value;
  };
  const std::int32_t loop[] = {0, 1, 2, 0, 1, 2, 0, 1, 2};
  const std::int32_t v_shape[] = {0, 1, 2, 2, 1, 0, 0, 1, 2};
  for (std::int32_t s = 0; s < 9; ++s) {
    program.placement = Placement::kLoop;
    CHECK(rank(s, 3) == loop[s]);
    program.placement = Placement::kVShape;
    CHECK(rank(s, 3) == v_shape[s]);
  }
  program.stages = 3;
  program.placement = Placement::kBidirectional;
  for (std::int32_t s = 0; s < 3; ++s) {
    CHECK(rank(s, 1) == s);
    CHECK(rank(s, 2) == 2 - s);
  }
}

}  // namespace
}  // namespace headrace::schedules
