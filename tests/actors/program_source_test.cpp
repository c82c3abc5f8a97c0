// make_run_program: what a name, a file and a search become, and what is refused.
#include "runtime/actors/program_source.hpp"

#include "runtime/config/load.hpp"
#include "schedules/csv.hpp"
#include "schedules/passes.hpp"
#include "schedules/registry.hpp"
#include "tests/actors/orders.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <string>

namespace headrace::actors {
namespace {

class Files {
 public:
  config::Config config(const std::string& csv, std::int32_t ranks, std::int32_t chunks,
                        std::int32_t microbatches) const {
    config::Config config = testing::tiny_config();
    config.schedule.file = folder_.write("mine.csv", csv);
    config.pipeline = {ranks, chunks};
    config.batch.size = microbatches;
    const auto finished = config::finish_config(config);
    REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
    return *finished;
  }
  schedules::Program program(const config::Config& config) const {
    const auto program = make_run_program(config, {});
    REQUIRE_MESSAGE(program.is_ok(), program.status().message());
    return *program;
  }
  std::string refusal(const config::Config& config) const {
    const auto program = make_run_program(config, {});
    REQUIRE_FALSE(program.is_ok());
    CHECK(program.status().code() == StatusCode::kConfig);
    return program.status().message();
  }
  const data::TemporaryFolder& folder() const { return folder_; }

 private:
  data::TemporaryFolder folder_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("program source: a file keeps its order and loses its pairs") {
  const Files files;
  const schedules::Program program = files.program(files.config(testing::kDualpipe, 2, 1, 4));
  CHECK(program.placement == schedules::Placement::kBidirectional);
  CHECK(schedules::to_csv(program) ==
        "0F0,1F2,0F1,1B2,1F3,0B0,1B3,0I1,0W1\n"
        "0F2,1F0,0F3,1B0,1F1,0B2,1B1,0I3,0W3\n");
}

TEST_CASE("program source: transfers in a file are checked and then part of F and B") {
  const Files files;
  const std::string lowered =
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1B0,1SEND_B0\n";
  CHECK(schedules::to_csv(files.program(files.config(lowered, 2, 1, 1))) == "0F0,0B0\n1F0,1B0\n");
  const std::string lost =
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1F0,1B0,1SEND_B0\n";
  CHECK(contains(files.refusal(files.config(lost, 2, 1, 1)), "schedule.file: "));
}

TEST_CASE("program source: a file for another layout is refused with both numbers") {
  const Files files;
  CHECK(contains(files.refusal(files.config("0F0,0B0\n1F0,1B0\n", 3, 1, 1)),
                 "has 2 ranks (rows), but pipeline.ranks is 3"));
  CHECK(contains(files.refusal(files.config("0F0,0B0\n1F0,1B0\n", 2, 2, 1)),
                 "has 1 stages per rank, but pipeline.chunks is 2"));
  CHECK(contains(files.refusal(files.config("0F0,0B0\n1F0,1B0\n", 2, 1, 4)),
                 "has 1 microbatches, but batch.size / batch.microbatch_size is 4"));
}

TEST_CASE("program source: a file of two replicas on an odd number of ranks is refused") {
  const Files files;
  // Both replicas of stage 1 stand on rank 1.
  const std::string three =
      "0F0,2F1,2B1,0B0\n"
      "1F0,1F1,1B0,1B1\n"
      "0F1,2F0,2B0,0B1\n";
  const std::string text = files.refusal(files.config(three, 3, 1, 2));
  CHECK_MESSAGE(contains(text, "schedule.file: "), text);
  CHECK_MESSAGE(contains(text, "rank 1 would hold both replicas of stage 1"), text);
}

TEST_CASE("program source: a file that cannot run names its own cells") {
  const Files files;
  const std::string early = files.refusal(files.config("0B0,0F0\n1F0,1B0\n", 2, 1, 1));
  CHECK_MESSAGE(contains(early, "schedule.file: "), early);
  CHECK_MESSAGE(contains(early, "0B0"), early);
  CHECK(contains(files.refusal(files.config("0F0,0B0\n1X0,1B0\n", 2, 1, 1)), "mine.csv:2"));
  CHECK(contains(files.refusal(files.config("0F0\n1F0\n", 2, 1, 1)), "trains nothing"));
  config::Config config = files.config("0F0,0B0\n", 1, 1, 1);
  config.schedule.file = files.folder().path("absent.csv");
  CHECK(contains(files.refusal(config), "absent.csv' cannot be read"));
  config.schedule.file = files.folder().path();
  CHECK(contains(files.refusal(config), "cannot be read"));
}

TEST_CASE("program source: backward and group reach the generator") {
  config::Config config = testing::tiny_config();
  config.schedule.name = "gpipe";
  config.schedule.backward = config::BackwardOrder::kDescending;
  config.batch.size = 2;
  const Files files;
  // What stands out of order is held back as its inputs.
  CHECK(schedules::to_csv(files.program(config)) == "0F0,0F1,0I1,0B0,0W1\n");
  config.schedule.backward = config::BackwardOrder::kAscending;
  CHECK(schedules::to_csv(files.program(config)) == "0F0,0F1,0B0,0B1\n");
  config = testing::tiny_config();
  config.schedule.name = "interleaved_1f1b";
  config.pipeline = {2, 2};
  config.schedule.group = 4;
  schedules::ScheduleSpec spec;
  spec.name = "interleaved_1f1b";
  spec.ranks = 2;
  spec.chunks = 2;
  spec.microbatches = 8;
  spec.group = 4;
  const auto expected = schedules::make_program(spec);
  REQUIRE(expected.is_ok());
  CHECK(files.program(config) == schedules::with_ascending_weights(*expected));
}

}  // namespace
}  // namespace headrace::actors
