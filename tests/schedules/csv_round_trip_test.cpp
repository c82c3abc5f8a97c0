#include "schedules/csv.hpp"
#include "schedules/passes.hpp"
#include "schedules/registry.hpp"
#include "schedules/validator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

using namespace headrace;
using namespace headrace::schedules;

namespace {

// Read back, the program is the same but for its name and for a placement that means the same.
void check_same(const Program& program, const Program& back) {
  CHECK(back.ranks == program.ranks);
  CHECK(back.chunks == program.chunks);
  CHECK(back.stages == program.stages);
  CHECK(back.microbatches == program.microbatches);
  CHECK(back.forward_only == program.forward_only);
  CHECK(back.actions == program.actions);
  bool is_same_place = true;
  for (std::int32_t s = 0; s < program.stages; ++s)
    for (std::int32_t m = 0; m < program.microbatches; ++m)
      is_same_place &= back.rank_of(StageIndex{s}, MicrobatchIndex{m}) ==
                       program.rank_of(StageIndex{s}, MicrobatchIndex{m});
  CHECK(is_same_place);
}

std::int64_t pair_count(const Program& program) {
  std::int64_t count = 0;
  for (const std::vector<Action>& list : program.actions)
    for (const Action& action : list) count += action.overlaps_next ? 1 : 0;
  return count;
}

void check_round_trip(const Program& program, CsvForm form) {
  const std::string text = write_csv(program, form);
  const CsvReading reading = read_csv(text, {"again.csv", form, program.ranks});
  REQUIRE_MESSAGE(reading.program, (reading.faults.empty() ? "" : reading.faults[0].text), text);
  CHECK(reading.notes.empty());
  CHECK(write_csv(*reading.program, form) == text);
  CHECK(pair_count(*reading.program) == pair_count(program));
  if (form == CsvForm::kComputeOnly) check_same(program, *reading.program);
  CHECK_MESSAGE(validate(*reading.program).is_ok(), text);
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("csv: C42 every schedule comes back the same in both forms") {
  int programs = 0;
  for (const ScheduleInfo& info : list_schedules()) {
    if (info.name == "auto") continue;  // a search per size; its program is one more order
    const int before = programs;
    for (std::int32_t ranks = 1; ranks <= 8; ++ranks)
      for (std::int32_t microbatches = 1; microbatches <= 16; ++microbatches)
        for (std::int32_t chunks = 1; chunks <= 3; ++chunks) {
          ScheduleSpec spec;
          spec.name = std::string(info.name);
          spec.ranks = ranks;
          spec.microbatches = microbatches;
          spec.chunks = chunks;
          const Result<Program> program = make_program(spec);
          if (!program.is_ok()) continue;
          CAPTURE(spec.name);
          CAPTURE(ranks);
          CAPTURE(microbatches);
          CAPTURE(chunks);
          check_round_trip(*program, CsvForm::kComputeOnly);
          check_round_trip(*program, CsvForm::kComputeComms);
          ++programs;
        }
    CHECK_MESSAGE(programs > before, info.name);
  }
  MESSAGE("programs written and read: " << programs);
  CHECK(programs >= 2700);
}

TEST_CASE("csv: C42 stages placed at random come back with their table") {
  constexpr std::uint32_t kSeed = 42;
  MESSAGE("seed " << kSeed);
  std::mt19937 random(kSeed);
  int tables = 0;
  for (int round = 0; round < 300; ++round) {
    Program program;
    program.schedule = "again.csv";
    program.ranks = static_cast<std::int32_t>(1 + random() % 6);
    program.chunks = static_cast<std::int32_t>(1 + random() % 4);
    program.stages = program.ranks * program.chunks;
    program.microbatches = static_cast<std::int32_t>(1 + random() % 5);
    program.placement = Placement::kTable;
    for (std::int32_t s = 0; s < program.stages; ++s)
      program.stage_ranks.push_back(Rank{s % program.ranks});
    std::shuffle(program.stage_ranks.begin(), program.stage_ranks.end(), random);
    program.actions.resize(static_cast<std::size_t>(program.ranks));
    const auto add = [&](ActionKind kind, std::int32_t stage, std::int32_t microbatch) {
      const Rank rank = program.stage_ranks[static_cast<std::size_t>(stage)];
      program.actions[rank.index()].push_back(
          {kind, StageIndex{stage}, MicrobatchIndex{microbatch}});
    };
    for (std::int32_t s = 0; s < program.stages; ++s)
      for (std::int32_t m = 0; m < program.microbatches; ++m) add(ActionKind::kForward, s, m);
    for (std::int32_t s = program.stages; s-- > 0;)
      for (std::int32_t m = 0; m < program.microbatches; ++m) add(ActionKind::kBackward, s, m);
    check_round_trip(program, CsvForm::kComputeOnly);
    check_round_trip(program, CsvForm::kComputeComms);
    const Result<Program> back = parse_csv(write_csv(program, CsvForm::kComputeOnly),
                                           {"again.csv", CsvForm::kComputeOnly, 0});
    REQUIRE(back.is_ok());
    if (back->placement != Placement::kTable) continue;  // it happens to be a loop or a V
    CHECK(*back == program);
    ++tables;
  }
  CHECK(tables >= 100);
}

TEST_CASE("csv: C42 every golden order is read and written byte for byte") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEADRACE_GOLDEN_DIR)) {
    if (entry.path().extension() != ".csv") continue;
    CAPTURE(entry.path().filename().string());
    const std::string text = read_file(entry.path());
    const CsvReading reading = read_csv(text, {"golden.csv", CsvForm::kComputeOnly, 0});
    REQUIRE_MESSAGE(reading.program, (reading.faults.empty() ? "" : reading.faults[0].text));
    CHECK(reading.notes.empty());
    CHECK(write_csv(*reading.program, CsvForm::kComputeOnly) == text);
    CHECK(reading.program->placement != Placement::kTable);
    ++files;
  }
  CHECK(files >= 50);
}

TEST_CASE("csv: compute only leaves out the end of the step and the transfers") {
  ScheduleSpec spec;
  spec.ranks = 4;
  spec.microbatches = 6;
  const Result<Program> program = make_program(spec);
  REQUIRE(program.is_ok());
  const Program whole = with_transfers(with_step_end(*program, {}));
  CHECK(write_csv(whole, CsvForm::kComputeOnly) == write_csv(*program, CsvForm::kComputeOnly));
  CHECK(write_csv(whole, CsvForm::kComputeComms).find("NORM") == std::string::npos);
  CHECK(to_csv(whole).find("OPTIMIZER") != std::string::npos);
}
