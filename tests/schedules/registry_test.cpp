#include "schedules/registry.hpp"

#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace headrace::schedules {
namespace {

using testing::contains;
using testing::Shape;
using testing::spec_of;

std::string refusal(const ScheduleSpec& spec) {
  const Result<Program> program = make_program(spec);
  REQUIRE_FALSE(program.is_ok());
  CHECK(program.status().code() == StatusCode::kConfig);
  return program.status().message();
}

TEST_CASE("registry: four schedules are listed with a summary and a rule and all can be made") {
  std::set<std::string_view> names;
  for (const ScheduleInfo& info : list_schedules()) {
    names.insert(info.name);
    CHECK_FALSE(info.summary.empty());
    CHECK_FALSE(info.rule.empty());
    CHECK(make_program(spec_of(info.name, {2, 2})).is_ok());
  }
  CHECK(names == std::set<std::string_view>{"1f1b", "forward_only", "gpipe", "interleaved_1f1b"});
}

TEST_CASE("registry: an unknown name is refused with the known ones") {
  const std::string text = refusal(spec_of("1f1B", {2, 2}));
  CHECK(contains(text, "'1f1B'"));
  CHECK(contains(text, "gpipe, 1f1b, interleaved_1f1b, forward_only"));
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

TEST_CASE("registry: reverse_backward is refused where it means nothing") {
  for (const ScheduleInfo& info : list_schedules()) {
    ScheduleSpec spec = spec_of(info.name, {2, 3});
    spec.descending_backward = true;
    CHECK(make_program(spec).is_ok() == (info.name == "gpipe"));
  }
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

TEST_CASE("registry: the M that an interleaved refusal proposes are accepted and the nearest") {
  for (std::int32_t p = 1; p <= 8; ++p) {
    std::int32_t below = 0;
    for (std::int32_t m = 1; m <= 40; ++m) {
      const Result<Program> program = make_program(spec_of("interleaved_1f1b", {p, m, 2}));
      CHECK(program.is_ok() == (m % (m < p ? 1 : m / p) == 0));
      if (program.is_ok()) {
        below = m;
        continue;
      }
      CHECK(contains(program.status().message(),
                     "the nearest M that fit are " + std::to_string(below) + " and "));
    }
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
