// A machine that refuses threads or memory: what a run says and how it ends.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Limits;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

Outcome train(const std::vector<std::string>& settings, const Limits& limits) {
  const RunFolder folder;
  std::vector<std::string> arguments = {"train", "tiny.yaml"};
  for (const std::string& setting : settings) {
    arguments.emplace_back("--set");
    arguments.push_back(setting);
  }
  return run_headrace(folder, arguments, limits);
}

}  // namespace

// 64 stacks of 64 MiB are 4 GiB, and the run may have two.
TEST_CASE("tools: ranks that get no thread end the run with their number and exit 4") {
  const std::vector<std::string> settings = {"model.layers=64", "pipeline.ranks=64"};
  const Outcome outcome =
      train(settings, {.address_space_bytes = 2048 * kMiB, .stack_bytes = 64 * kMiB});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(contains(outcome.err, "run started"));
  CHECK(contains(outcome.err, "a thread per rank, 64 of them, could not be started: "));
  CHECK(contains(outcome.err, "lower pipeline.ranks or raise the limit of threads or memory"));
}

// Each of the four blocks has 12 * 8192^2 weights, beside them gradients and two moments: 24 GiB a
// rank.
TEST_CASE("tools: a rank that gets no memory says how much it needs and exits 4") {
  const Outcome outcome = train({"model.width=8192"}, {.address_space_bytes = 2048 * kMiB});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 4);
  const std::string before = "rank 0: memory for its ";
  const std::size_t at = outcome.err.rfind(before);
  REQUIRE(at != std::string::npos);
  const std::string rest = outcome.err.substr(at + before.size());
  const int needed_mib = std::stoi(rest);
  CHECK(needed_mib > 24 * 1024);
  CHECK(needed_mib < 25 * 1024);
  CHECK(rest.find(" MiB cannot be had; see the table of `headrace config check`") ==
        std::to_string(needed_mib).size());
}

// Two slots of 50 million sequences and the ids of 100 million: far beyond two GiB.
TEST_CASE("tools: slots between stages that get no memory are named and exit 4") {
  const Outcome outcome = train({"batch.size=100000000", "batch.microbatch_size=50000000"},
                                {.address_space_bytes = 2048 * kMiB});
  CAPTURE(outcome.err);
  CHECK(outcome.exit_code == 4);
  CHECK(contains(outcome.err,
                 "memory for the slots between stages and the token buffers cannot be had; see the "
                 "boundary column of `headrace config check`"));
}
