// Whole runs over links whose sends wait for their receives.
#include "runtime/config/load.hpp"
#include "schedules/registry.hpp"
#include "tests/actors/blocking_link.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::difference;
using testing::TinyData;

config::Config base() {
  config::Config config = testing::tiny_config();
  config.run.steps = 2;
  config.determinism.reduction_blocks = 2;
  return config;
}

RunOptions over_links(std::uint64_t seed, std::int64_t delay_us_max) {
  RunOptions options;
  options.links = testing::blocking_links({.seed = seed, .delay_us_max = delay_us_max});
  return options;
}

// A runtime that posted a receive only after it was told of the finished send would stand still in
// step 1: the send finishes only once the receive is posted.
TEST_CASE("case C47: sends that wait for a late receive hold up no schedule") {
  const TinyData data;
  const RunResult expected = data.run(base());
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    for (const std::int32_t ranks : {2, 4}) {
      config::Config config = base();
      config.schedule.name = std::string(info.name);
      config.pipeline = {ranks, info.chunks > 0 ? info.chunks : info.even_chunks ? 2 : 1};
      if (info.forward_only || ranks * config.pipeline.chunks > 7) continue;
      for (const bool greedy : {false, true}) {
        config.schedule.policy = greedy ? config::PolicyKind::kGreedy : config::PolicyKind::kStatic;
        config.run.queued = greedy && ranks == 2;
        const std::string cell = config.schedule.name + " P=" + std::to_string(ranks);
        CAPTURE(cell);
        CAPTURE(greedy);
        CHECK_EQ(difference(expected, data.run(config, over_links(3, 0))), "");
      }
    }
  }
}

TEST_CASE("case C48: both sides that send first over blocking links never stall") {
  const TinyData data;
  config::Config config = base();
  config.batch.size = 64;
  config.run.steps = testing::rounds(200, 4);
  const RunResult expected = data.run(config);
  constexpr std::uint64_t kSeed = 20261205;
  MESSAGE("seed " << kSeed);
  config.pipeline = {2, 1};
  CHECK_EQ(difference(expected, data.run(config, over_links(kSeed, 100))), "");
}

}  // namespace
}  // namespace headrace::actors
