// A run of some hundred steps: memory and threads stay level, and the accounts add up.
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <numeric>
#include <string>
#include <unistd.h>
#include <vector>

namespace headrace::actors {
namespace {

using testing::tiny_config;
using testing::TinyData;

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t thread_count() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("Threads:", 0) == 0) return std::stoll(line.substr(8));
  }
  return -1;
}

class Gauge : public RunObserver {
 public:
  void on_step(const StepRecord& record) override {
    if (record.step.value % 20 != 0) return;
    bytes_.push_back(resident_bytes());
    threads_.push_back(thread_count());
  }
  const std::vector<std::int64_t>& bytes() const { return bytes_; }
  const std::vector<std::int64_t>& threads() const { return threads_; }

 private:
  std::vector<std::int64_t> bytes_, threads_;
};

TEST_CASE("case C89: memory and threads stay level over the steps of a run") {
  const TinyData data;
  for (const char* schedule : {"1f1b", "interleaved_1f1b"}) {
    CAPTURE(schedule);
    config::Config config = tiny_config();
    config.schedule.name = schedule;
    config.pipeline = {2, std::string(schedule) == "1f1b" ? 1 : 2};
    config.model.layers = 2;
    config.batch.size = 4;
    config.run.steps = testing::rounds(300, 60);
    Gauge gauge;
    RunOptions options;
    options.observer = &gauge;
    const RunResult run = data.run(config, options);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    REQUIRE(gauge.bytes().size() >= 3);
    // Fewer is fine: a thread of an earlier run may have ended.
    for (const std::int64_t threads : gauge.threads()) CHECK(threads <= gauge.threads().front());
    if (testing::kSanitized) continue;  // shadow memory grows by its own rules
    // From step 100 on: less than 1 kB a step.
    CHECK(gauge.bytes().back() - gauge.bytes()[4] < 200 * 1024);
  }
}

TEST_CASE("run: the causes of the time of a rank sum to the wall time") {
  const TinyData data;
  config::Config config = tiny_config();
  config.pipeline.ranks = 2;
  config.run.steps = testing::rounds(30, 8);
  const RunResult run = data.run(config);
  REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
  REQUIRE(run.times.size() == 2);
  for (const RankTimes& times : run.times) {
    const double sum = std::accumulate(times.seconds.begin(), times.seconds.end(), 0.0);
    CHECK(sum <= run.wall_seconds * 1.001);
    CHECK(sum >= 0.5 * run.wall_seconds - 0.05);
    CHECK(times.steps == config.run.steps - 1);  // the first warms up
    CHECK(times.actions == times.steps * 8 * 2);
    CHECK(times.work > 0);
  }
  CHECK(run.cpu_us_per_action > 0);
  CHECK(run.step_seconds_predicted > 0);
  CHECK(run.bubble_predicted >= 0);
  CHECK(run.bubble_predicted < 1);
  CHECK(run.numerics_id.rfind("cpu/", 0) == 0);
  for (const StepRecord& step : run.steps) {
    CHECK(step.seconds > 0);
    CHECK(step.bubble < 1);
  }
}

}  // namespace
}  // namespace headrace::actors
