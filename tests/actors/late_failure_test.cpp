// Failures that show late: in queued work, in the last update, in an observer, in frozen tied ends.
#include "kernels/cpu/cpu_stream.hpp"
#include "runtime/actors/pipeline.hpp"
#include "runtime/actors/rank_worker.hpp"
#include "runtime/config/load.hpp"
#include "stages/layer.hpp"
#include "tests/actors/sleeping_layer.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

using testing::tiny_config;
using testing::TinyData;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

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

config::LayerRun one(const char* kind) { return {kind, 1, {}}; }

Plan plan_with_throwing_layer(bool queued) {
  static const Status registered =
      stages::register_layer_kind("throwing", [](const stages::LayerOptions& options) {
        return std::make_unique<ThrowingLayer>(options.model.width);
      });
  REQUIRE_MESSAGE(registered.is_ok(), registered.message());
  config::Config config = tiny_config();
  config.run.queued = queued;
  config.pipeline.ranks = 3;
  config.stages = {{{one("embedding"), one("block")}, false},
                   {{one("block"), one("block")}, false},
                   {{one("block"), one("norm"), one("head")}, false}};
  auto finished = config::finish_config(std::move(config));
  REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
  auto& layers = finished->stages[1].layers;
  layers.insert(layers.begin(), one("throwing"));
  auto plan = make_plan(*finished);
  REQUIRE_MESSAGE(plan.is_ok(), plan.status().message());
  return *std::move(plan);
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

TEST_CASE("case C30: a tied matrix frozen at both ends trains the rest and equals one rank") {
  const TinyData data;
  config::Config config = tiny_config();
  config.model.tied = true;
  config.pipeline.ranks = 3;
  config.stages = {
      {{one("embedding")}, true}, {{{"block", 4, {}}}, false}, {{one("norm"), one("head")}, true}};
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
