// Failures that show late: in queued work, in the last update, in an observer, in frozen tied ends.
#include "kernels/cpu/cpu_stream.hpp"
#include "runtime/actors/pipeline.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "stages/layer.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace headrace::actors {
namespace {

using testing::contains;
using testing::tiny_config;
using testing::TinyData;

// Copies its input; at one step its kernel throws when it runs, on the stream's own thread.
class ThrowingLayer : public stages::Layer {
 public:
  static constexpr std::int64_t kStep = 2;

  explicit ThrowingLayer(std::int64_t width) : width_(width) {}
  const std::vector<stages::ParameterSpec>& parameters() const override { return parameters_; }
  stages::LayerBytes bytes(const stages::MicrobatchShape&) const override { return {}; }
  double forward_flops(const stages::MicrobatchShape&) const override { return 1; }
  void forward(const stages::LayerCall& call) override {
    call.operators.convert(call.stream, call.x, call.y, call.shape.rows() * width_);
    if (call.step.step.value != kStep || call.microbatch.value != 1) return;
    void (*const boom)(kernels::CpuContext&, const int&) = [](kernels::CpuContext&, const int&) {
      throw std::runtime_error("kernel boom");
    };
    dynamic_cast<kernels::CpuStream&>(call.stream).enqueue(kernels::Task(boom, 0));
  }
  void backward_input(const stages::LayerCall& call) override {
    call.operators.convert(call.stream, call.dy, call.dx, call.shape.rows() * width_);
  }
  void backward_weight(const stages::LayerCall&) override {}

 private:
  std::int64_t width_;
  std::vector<stages::ParameterSpec> parameters_;
};

Plan plan_with_throwing_layer(bool queued) {
  static const Status registered =
      stages::register_layer_kind("throwing", [](const stages::LayerOptions& options) {
        return std::make_unique<ThrowingLayer>(options.model.width);
      });
  REQUIRE_MESSAGE(registered.is_ok(), registered.message());
  config::Config config = tiny_config();
  config.run.queued = queued;
  return testing::plan_with_layer(config, 1, "throwing");
}

TEST_CASE("queued failure: a kernel that throws late is never committed") {
  const TinyData data;
  for (const bool queued : {false, true}) {
    CAPTURE(queued);
    const RunResult run = data.run(plan_with_throwing_layer(queued));
    CAPTURE(run.status.message());
    CHECK_FALSE(run.status.is_ok());
    CHECK(contains(run.status.message(), "kernel boom"));
    CHECK(contains(run.status.message(), "rank 1"));
    CHECK(run.steps.size() == ThrowingLayer::kStep - 1);
    CHECK_FALSE(run.stuck);
  }
}

// Its kernel of the first microbatch hears no stop and ends when it is let go; meanwhile the second
// microbatch throws on the rank's own thread.
class BlockedLayer : public stages::Layer {
 public:
  static std::atomic<int> inside;  // kernels that run now
  static std::atomic<bool> entered;
  static std::atomic<bool> let_go;
  static void reset() {
    entered.store(false);
    let_go.store(false);
  }

  explicit BlockedLayer(std::int64_t width) : width_(width) {}
  const std::vector<stages::ParameterSpec>& parameters() const override { return parameters_; }
  stages::LayerBytes bytes(const stages::MicrobatchShape&) const override { return {}; }
  double forward_flops(const stages::MicrobatchShape&) const override { return 1; }
  void forward(const stages::LayerCall& call) override {
    call.operators.convert(call.stream, call.x, call.y, call.shape.rows() * width_);
    if (call.microbatch.value == 0) {
      dynamic_cast<kernels::CpuStream&>(call.stream).enqueue(kernels::Task(&block, 0));
      return;
    }
    await(entered);
    throw std::runtime_error("thrown beside a kernel");
  }
  void backward_input(const stages::LayerCall&) override {}
  void backward_weight(const stages::LayerCall&) override {}

  static void await(const std::atomic<bool>& flag) {
    while (!flag.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  static void block(kernels::CpuContext&, const int&) {
    inside.fetch_add(1);
    entered.store(true);
    await(let_go);
    inside.fetch_sub(1);
  }

  std::int64_t width_;
  std::vector<stages::ParameterSpec> parameters_;
};

std::atomic<int> BlockedLayer::inside{0};
std::atomic<bool> BlockedLayer::entered{false};
std::atomic<bool> BlockedLayer::let_go{false};

RunResult run_with_blocked_layer(const TinyData& data) {
  static const Status registered =
      stages::register_layer_kind("blocked", [](const stages::LayerOptions& options) {
        return std::make_unique<BlockedLayer>(options.model.width);
      });
  REQUIRE_MESSAGE(registered.is_ok(), registered.message());
  config::Config config = tiny_config();
  config.run.queued = true;
  BlockedLayer::reset();
  return data.run(testing::plan_with_layer(config, 0, "blocked"));
}

TEST_CASE("queued failure: a run that ends leaves no kernel running") {
  const TinyData data;
  std::thread later([] {
    BlockedLayer::await(BlockedLayer::entered);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    BlockedLayer::let_go.store(true);
  });
  const RunResult run = run_with_blocked_layer(data);
  CHECK(BlockedLayer::inside.load() == 0);
  later.join();
  CHECK(contains(run.status.message(), "thrown beside a kernel"));
  CHECK_FALSE(run.stuck);
}

TEST_CASE("queued failure: a kernel that never returns is left behind") {
  const TinyData data;
  std::atomic<bool> returned{false};
  // Should the run wait for its kernel, this test must still end.
  std::thread limit([&returned] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!returned.load() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    BlockedLayer::let_go.store(true);
  });
  const RunResult run = run_with_blocked_layer(data);
  CHECK(BlockedLayer::inside.load() == 1);
  returned.store(true);
  limit.join();
  CHECK(run.stuck);
  CHECK(contains(run.status.message(), "thrown beside a kernel"));
  while (BlockedLayer::inside.load() != 0) std::this_thread::yield();
}

TEST_CASE("case C30: a tied matrix frozen at both ends trains the rest and equals one rank") {
  const TinyData data;
  config::Config config = tiny_config();
  config.model.tied = true;
  config.pipeline.ranks = 3;
  config.stages = {{{{"embedding", 1, {}}}, true},
                   {{{"block", 4, {}}}, false},
                   {{{"norm", 1, {}}, {"head", 1, {}}}, true}};
  const RunResult spread = data.run(config);
  REQUIRE_MESSAGE(spread.status.is_ok(), spread.status.message());
  CHECK(spread.steps.size() == 3);
  // One rank that holds the same three stages.
  config.pipeline = {1, 3};
  config.schedule.name = "interleaved_1f1b";
  const RunResult alone = data.run(config);
  CHECK(testing::difference(alone, spread) == "");
}

TEST_CASE("last update: weights that it breaks end the run with their name") {
  auto pipeline = Pipeline::create(testing::plan_of(tiny_config()));
  REQUIRE(pipeline.is_ok());
  auto worker = RankWorker::create(**pipeline, Rank(0));
  REQUIRE(worker.is_ok());
  CHECK_FALSE((*worker)->report_state().lines.empty());
  CHECK_FALSE((*worker)->take_failure());
  const auto state = (*worker)->stage(ChunkIndex(0)).state();
  state[3].data[1] = std::numeric_limits<float>::infinity();
  CHECK_FALSE((*worker)->report_state().lines.empty());
  const auto failure = (*worker)->take_failure();
  REQUIRE(failure);
  CHECK(failure->code == static_cast<std::int32_t>(StatusCode::kNumerics));
  CHECK(contains(failure->text, state[3].name + " is not finite after the last update"));
}

TEST_CASE("observer: what it throws ends the run with its text") {
  class Throwing final : public RunObserver {
   public:
    void on_step(const StepRecord&) override { throw std::runtime_error("observer boom"); }
  } observer;
  const TinyData data;
  RunOptions options;
  options.observer = &observer;
  const RunResult run = data.run(tiny_config(), options);
  CHECK(run.status.code() == StatusCode::kInternal);
  CHECK(contains(run.status.message(), "observer boom"));
}

}  // namespace
}  // namespace headrace::actors
