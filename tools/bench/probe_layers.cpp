#include "tools/bench/probe_layers.hpp"

#include "stages/layer.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace headrace::bench {
namespace {

using stages::LayerCall;

class EmptyLayer : public stages::Layer {
 public:
  [[nodiscard]] const std::vector<stages::ParameterSpec>& parameters() const override {
    return parameters_;
  }
  [[nodiscard]] stages::LayerBytes bytes(const stages::MicrobatchShape&) const override {
    return {};
  }
  [[nodiscard]] double forward_flops(const stages::MicrobatchShape&) const override { return 1; }
  void forward(const LayerCall&) override {}
  void backward_input(const LayerCall&) override {}
  void backward_weight(const LayerCall&) override {}

 protected:
  std::vector<stages::ParameterSpec> parameters_;
};

// It has one weight, so that its stage runs the weight gradient and the first stage its backward.
class SleepLayer : public EmptyLayer {
 public:
  enum class Pace { kEven, kUneven, kOneSlow };

  SleepLayer(std::int64_t number, Pace pace) : number_(number), pace_(pace) {
    stages::ParameterSpec weight;
    weight.name = "sleep." + std::to_string(number) + ".weight";
    weight.shape = {1};
    weight.init = stages::InitKind::kZeros;
    parameters_ = {weight};
  }
  void forward(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepForwardNs * times(call));
  }
  void backward_input(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepInputNs * times(call));
  }
  void backward_weight(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepWeightNs * times(call));
  }

 private:
  [[nodiscard]] std::int64_t times(const LayerCall& call) const {
    const std::int64_t m = call.microbatch.value;
    // One microbatch in three of each stage is slow, another one at each stage.
    if (pace_ == Pace::kUneven) return (m + number_) % 3 == 0 ? 4 : 1;
    if (pace_ == Pace::kEven) return 1;
    // Drawn once: which of four stages is slow for each of 16 microbatches.
    constexpr std::array<std::int64_t, 16> kSlow = {2, 0, 3, 1, 1, 2, 0, 3, 3, 1, 2, 2, 0, 1, 3, 0};
    return kSlow[static_cast<std::size_t>(m) % kSlow.size()] == number_ % 4 ? 5 : 1;
  }

  std::int64_t number_;
  Pace pace_;
};

void require(const Status& status) {
  if (status) return;
  std::fprintf(stderr, "headrace_bench: %s\n", status.message().c_str());
  std::exit(1);
}

}  // namespace

void register_probe_layers() {
  require(stages::register_layer_kind(
      kEmptyLayer, [](const stages::LayerOptions&) { return std::make_unique<EmptyLayer>(); }));
  using Pace = SleepLayer::Pace;
  const auto add = [](const char* kind, Pace pace) {
    require(stages::register_layer_kind(kind, [pace](const stages::LayerOptions& options) {
      return std::make_unique<SleepLayer>(options.spec.number, pace);
    }));
  };
  add(kSleepLayer, Pace::kEven);
  add(kUnevenLayer, Pace::kUneven);
  add(kSlowLayer, Pace::kOneSlow);
}

}  // namespace headrace::bench
