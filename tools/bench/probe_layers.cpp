#include "tools/bench/probe_layers.hpp"

#include "stages/layer.hpp"

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
  explicit SleepLayer(std::int64_t number) {
    stages::ParameterSpec weight;
    weight.name = std::string(kSleepLayer) + "." + std::to_string(number) + ".weight";
    weight.shape = {1};
    weight.init = stages::InitKind::kZeros;
    parameters_ = {weight};
  }
  void forward(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepForwardNs);
  }
  void backward_input(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepInputNs);
  }
  void backward_weight(const LayerCall& call) override {
    call.operators.sleep(call.stream, kSleepWeightNs);
  }
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
  require(stages::register_layer_kind(kSleepLayer, [](const stages::LayerOptions& options) {
    return std::make_unique<SleepLayer>(options.spec.number);
  }));
}

}  // namespace headrace::bench
