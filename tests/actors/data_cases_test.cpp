// Whole runs: bad tokens, epochs, a stop by signal.
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

namespace headrace::actors {
namespace {

using testing::contains;
using testing::difference;
using testing::tiny_config;
using testing::TinyData;

TEST_CASE("case C75: a token outside the vocabulary stops the run before any weight changes") {
  // Eight samples: the first batch holds every token. The last one is a target only.
  for (const std::size_t place : {std::size_t{0}, std::size_t{100}, std::size_t{128}}) {
    for (const std::uint16_t token : {std::uint16_t{64}, std::uint16_t{65535}}) {
      CAPTURE(place);
      CAPTURE(token);
      std::vector<std::uint16_t> tokens = testing::tiny_tokens(129);
      tokens[place] = token;
      const TinyData data(tokens);
      config::Config config = tiny_config();
      config.pipeline.ranks = 3;
      const RunResult run = data.run(config);
      CHECK(run.status.code() == StatusCode::kData);
      CHECK(exit_code(run.status.code()) == 3);
      const std::string& text = run.status.message();
      CAPTURE(text);
      CHECK(contains(text, "step 1"));
      CHECK(contains(text, "tokens.bin"));
      CHECK(contains(text, std::to_string(place)));
      CHECK(contains(text, std::to_string(token)));
      CHECK(contains(text, "64"));
      CHECK(run.steps.empty());
      CHECK_FALSE(run.stuck);
    }
  }
}

TEST_CASE("case C75: a bad token in a later batch stops the run before that batch is used") {
  std::vector<std::uint16_t> tokens = testing::tiny_tokens(4001);
  tokens[1000] = 64;
  const TinyData data(tokens);
  config::Config config = tiny_config();
  config.pipeline.ranks = 2;
  config.run.steps = 100;  // one epoch is 31 batches
  const RunResult run = data.run(config);
  CHECK(run.status.code() == StatusCode::kData);
  CAPTURE(run.status.message());
  CHECK(contains(run.status.message(), "1000"));
  CHECK(run.steps.size() < 32);
  const std::string next = "step " + std::to_string(run.steps.size() + 1) + ":";
  const std::string after = "step " + std::to_string(run.steps.size() + 2) + ":";
  CHECK((contains(run.status.message(), next) || contains(run.status.message(), after)));
}

TEST_CASE("data: a missing file and one without a sample are refused before anything starts") {
  config::Config config = tiny_config();
  config.pipeline.ranks = 2;
  config.data.train = "/nonexistent/tokens.bin";
  const RunResult missing = train(testing::plan_of(config));
  CHECK(missing.status.code() == StatusCode::kData);
  CHECK(contains(missing.status.message(), "/nonexistent/tokens.bin"));
  CHECK(missing.steps.empty());
  const TinyData shorter(testing::tiny_tokens(16));
  CHECK(shorter.run(config).status.code() == StatusCode::kData);
}

TEST_CASE("case C78: ten batches and 35 steps end in epoch 3 on every layout") {
  const TinyData data(testing::tiny_tokens(10 * 8 * 16 + 1));
  config::Config config = tiny_config();
  config.model.dropout = 0.1;  // its masks depend on the epoch
  config.run.steps = 35;
  config.model.layers = 2;
  const RunResult alone = data.run(config);
  REQUIRE_MESSAGE(alone.status.is_ok(), alone.status.message());
  config.pipeline.ranks = 4;
  const RunResult run = data.run(config);
  CHECK_EQ(difference(alone, run), "");
  REQUIRE(run.steps.size() == 35);
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    CHECK(run.steps[i].epoch == static_cast<std::int64_t>(i / 10));
    CHECK(run.steps[i].step.value == static_cast<std::int64_t>(i + 1));
    CHECK(run.steps[i].tokens == 8 * 16);
  }
}

class SignalAfter : public RunObserver {
 public:
  SignalAfter(std::atomic<int>& signal, std::int64_t step) : signal_(signal), step_(step) {}
  void on_step(const StepRecord& record) override {
    order_kept_ = order_kept_ && record.step.value == ++seen_;
    if (record.step.value == step_) signal_.store(SIGTERM);
  }
  bool order_kept() const { return order_kept_; }
  std::int64_t seen() const { return seen_; }

 private:
  std::atomic<int>& signal_;
  std::int64_t step_;
  std::int64_t seen_ = 0;
  bool order_kept_ = true;
};

TEST_CASE("signal: a run stops at the next step boundary with its state complete") {
  const TinyData data;
  for (const std::int32_t ranks : {1, 4}) {
    CAPTURE(ranks);
    config::Config config = tiny_config();
    config.pipeline.ranks = ranks;
    config.run.steps = 500;
    std::atomic<int> signal{0};
    SignalAfter observer(signal, 2);
    RunOptions options;
    options.observer = &observer;
    options.signal = &signal;
    const RunResult run = data.run(config, options);
    REQUIRE_MESSAGE(run.status.is_ok(), run.status.message());
    CHECK(run.signal == SIGTERM);
    CHECK(run.steps.size() == 3);
    CHECK(observer.seen() == 3);
    CHECK(observer.order_kept());
    config.run.steps = 3;
    CHECK_EQ(difference(data.run(config), run), "");
  }
}

TEST_CASE("signal: one that comes before the start stops after the first step") {
  const TinyData data;
  config::Config config = tiny_config();
  config.pipeline.ranks = 2;
  const std::atomic<int> signal{SIGINT};
  RunOptions options;
  options.signal = &signal;
  const RunResult run = data.run(config, options);
  CHECK(run.status.is_ok());
  CHECK(run.signal == SIGINT);
  CHECK(run.steps.size() == 1);
  // On the last step there is nothing left to stop.
  config.run.steps = 1;
  CHECK(data.run(config, options).signal == 0);
}

}  // namespace
}  // namespace headrace::actors
