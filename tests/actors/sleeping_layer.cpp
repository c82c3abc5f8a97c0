#include "tests/actors/sleeping_layer.hpp"

#include "kernels/operators.hpp"
#include "stages/layer.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <random>
#include <string>
#include <thread>

namespace headrace::actors::testing {
namespace {

SleepPlan current_plan;

class SleepingLayer : public stages::Layer {
 public:
  explicit SleepingLayer(const stages::LayerOptions& options)
      : width_(options.model.width),
        type_(stages::boundary_dtype(options.model)),
        number_(options.spec.number),
        plan_(current_plan) {
    if (plan_.weight_ns <= 0) return;
    stages::ParameterSpec gain;
    gain.name = "sleeping." + std::to_string(number_) + ".gain";
    gain.shape = {1};
    gain.init = stages::InitKind::kOnes;
    parameters_ = {gain};
  }

  const std::vector<stages::ParameterSpec>& parameters() const override { return parameters_; }
  stages::LayerBytes bytes(const stages::MicrobatchShape&) const override { return {}; }
  double forward_flops(const stages::MicrobatchShape&) const override { return 1; }

  void forward(const stages::LayerCall& call) override {
    rest(call, plan_.forward_ns);
    call.operators.convert(call.stream, call.x, call.y, call.shape.rows() * width_);
  }
  void backward_input(const stages::LayerCall& call) override {
    rest(call, plan_.backward_ns);
    if (call.dx.data == nullptr) return;
    call.operators.convert(call.stream, call.dy, call.dx, call.shape.rows() * width_);
  }
  void backward_weight(const stages::LayerCall& call) override { rest(call, plan_.weight_ns); }

 private:
  [[nodiscard]] std::int64_t delay(const stages::LayerCall& call) const {
    if (plan_.slow_ns <= 0) return 0;
    std::seed_seq sequence{plan_.seed, static_cast<std::uint64_t>(call.step.step.value),
                           static_cast<std::uint64_t>(call.microbatch.value)};
    const auto slow = static_cast<std::int64_t>(std::mt19937(sequence)() % plan_.layers);
    return slow == number_ ? plan_.slow_ns : 0;
  }

  void rest(const stages::LayerCall& call, std::int64_t ns) const {
    ns += delay(call);
    if (ns <= 0) return;
    if (plan_.deaf) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
    } else {
      call.operators.sleep(call.stream, ns);
    }
  }

  std::int64_t width_;
  kernels::DType type_;
  std::int64_t number_;
  SleepPlan plan_;
  std::vector<stages::ParameterSpec> parameters_;
};

}  // namespace

void use_sleeping_layers(const SleepPlan& plan) {
  current_plan = plan;
  static const Status registered = stages::register_layer_kind(
      "sleeping",
      [](const stages::LayerOptions& options) { return std::make_unique<SleepingLayer>(options); });
  REQUIRE_MESSAGE(registered.is_ok(), registered.message());
}

}  // namespace headrace::actors::testing
