// Against an independent generator and simulator: orders cell by cell, and every number of a
// record.
#include "runtime/base/sha256.hpp"
#include "schedules/csv.hpp"
#include "schedules/passes.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::schedules {
namespace {

using nlohmann::json;
using testing::program_of;
using testing::Shape;

std::string read_file(const std::string& name) {
  std::ifstream in(std::string(HEADRACE_GOLDEN_DIR) + "/" + name, std::ios::binary);
  REQUIRE_MESSAGE(in.good(), name);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

json golden() { return json::parse(read_file("golden.json")); }

Shape shape_of(const json& record) {
  return {record.at("P").get<std::int32_t>(), record.at("M").get<std::int32_t>(),
          record.at("V").get<std::int32_t>()};
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

// "1f1b_p2_m4_v1.csv" -> the schedule and its shape.
ScheduleSpec spec_of_file(const std::string& stem) {
  const std::size_t p = stem.rfind("_p");
  const std::size_t m = stem.rfind("_m");
  const std::size_t v = stem.rfind("_v");
  const auto number = [&](std::size_t at) { return std::stoi(stem.substr(at + 2)); };
  return testing::spec_of(stem.substr(0, p), {number(p), number(m), number(v)});
}

// The reference's looped_bfs descends, as PyTorch's does.
ScheduleSpec golden_spec(const std::string& name, const Shape& shape) {
  ScheduleSpec spec = testing::spec_of(name, shape);
  spec.descending_backward = name == "looped_bfs";
  return spec;
}

// Orders that follow from a rule are compared cell by cell; those of v_half and v_min are a
// heuristic's: theirs must be valid, hold the peak and take no longer.
bool has_exact_order(std::string_view name) { return name != "v_half" && name != "v_min"; }

TEST_CASE("golden: orders equal the reference files cell by cell") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(HEADRACE_GOLDEN_DIR)) {
    if (entry.path().extension() != ".csv") continue;
    ++files;
    CAPTURE(entry.path().string());
    ScheduleSpec spec = spec_of_file(entry.path().stem().string());
    spec.descending_backward = spec.name == "looped_bfs";
    const Program program = make_program(spec).value();
    if (!has_exact_order(spec.name)) {
      CHECK(validate(program).is_ok());
      continue;
    }
    const std::vector<std::string> rows = split(read_file(entry.path().filename().string()), '\n');
    const std::vector<std::string> ours = split(to_csv(program), '\n');
    REQUIRE(ours.size() == rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) CHECK_MESSAGE(ours[r] == rows[r], "rank ", r);
  }
  CHECK(files == 173);
}

void check_bounds(const json& record, const Program& program) {
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  const auto peaks = record.at("peak_inflight").get<std::vector<std::int32_t>>();
  CHECK(*std::max_element(facts->peak_activations.begin(), facts->peak_activations.end()) ==
        *std::max_element(peaks.begin(), peaks.end()));
  const Simulation run = simulate(program, {});
  CHECK(run.makespan <= record.at("makespan").get<double>());
}

void check_record(const json& record, const Program& program) {
  CHECK(sha256_hex(to_csv(program)) == record.at("order_sha256").get<std::string>());
  const Result<ProgramFacts> facts = validate(program);
  REQUIRE_MESSAGE(facts.is_ok(), facts.status().message());
  CHECK(facts->peak_activations == record.at("peak_inflight").get<std::vector<std::int32_t>>());
  const Simulation run = simulate(program, {});
  CHECK(run.makespan == record.at("makespan").get<double>());
  CHECK(run.idle == record.at("idle_per_rank").get<std::vector<double>>());
  CHECK(run.busy == record.at("work_per_rank").get<std::vector<double>>());
  CHECK(run.bubble_global == doctest::Approx(record.at("bubble_fraction").get<double>()));
  CHECK(run.bubble_span == doctest::Approx(record.at("span_bubble_rate").get<double>()));
  const auto spans = record.at("span_per_rank").get<std::vector<double>>();
  REQUIRE(run.timeline.size() == spans.size());
  for (std::size_t r = 0; r < spans.size(); ++r)
    CHECK(run.timeline[r].back().end - run.timeline[r].front().start == spans[r]);
}

TEST_CASE("golden: every record has the reference order hash makespan idle span and peaks") {
  int records = 0;
  const json all = golden();
  for (const json& record : all.at("records")) {
    const Shape shape = shape_of(record);
    const std::string name = record.at("schedule").get<std::string>();
    CAPTURE(name);
    CAPTURE(shape.ranks);
    CAPTURE(shape.microbatches);
    CAPTURE(shape.chunks);
    const Program program = make_program(golden_spec(name, shape)).value();
    has_exact_order(name) ? check_record(record, program) : check_bounds(record, program);
    ++records;
  }
  CHECK(records == 623);
}

TEST_CASE("golden: what the reference refuses is refused with the numbers") {
  int refused = 0;
  const json all = golden();
  for (const json& record : all.at("refused")) {
    const Shape shape = shape_of(record);
    const std::string name = record.at("schedule").get<std::string>();
    CAPTURE(name);
    CAPTURE(shape.ranks);
    CAPTURE(shape.microbatches);
    const Result<Program> program = make_program(golden_spec(name, shape));
    REQUIRE_FALSE(program.is_ok());
    CHECK(testing::contains(program.status().message(), "P=" + std::to_string(shape.ranks)));
    CHECK(testing::contains(program.status().message(), "M=" + std::to_string(shape.microbatches)));
    ++refused;
  }
  CHECK(refused == 53);
}

TEST_CASE("golden: latency and unequal durations give the reference makespan and bubbles") {
  int cases = 0;
  const json all = golden();
  for (const json& record : all.at("latency")) {
    const std::string name = record.at("schedule").get<std::string>();
    const std::string which = record.at("case").get<std::string>();
    CAPTURE(name);
    CAPTURE(which);
    CAPTURE(record.at("P").get<int>());
    CAPTURE(record.at("M").get<int>());
    SimulationOptions options;
    options.stages = {{record.at("tF").get<double>(), record.at("tI").get<double>(),
                       record.at("tW").get<double>()}};
    options.hop = record.at("tC").get<double>();
    const Program program = make_program(golden_spec(name, shape_of(record))).value();
    if (!has_exact_order(name)) continue;
    const Simulation run = simulate(program, options);
    CHECK(run.makespan == doctest::Approx(record.at("overlap_makespan").get<double>()));
    CHECK(run.bubble_global == doctest::Approx(record.at("overlap_bubble_fraction").get<double>()));
    CHECK(run.bubble_span == doctest::Approx(record.at("overlap_span_bubble_rate").get<double>()));
    ++cases;
  }
  CHECK(cases > 200);
}

}  // namespace
}  // namespace headrace::schedules
