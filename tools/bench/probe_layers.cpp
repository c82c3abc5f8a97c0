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
  SleepLayer(std::int64_t number, bool uneven) : number_(number), uneven_(uneven) {
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
  // One microbatch in three of each stage is slow, another one at each stage.
  [[nodiscard]] std::int64_t times(const LayerCall& call) const {
    return uneven_ && (call.microbatch.value + number_) % 3 == 0 ? 4 : 1;
  }

  std::int64_t number_;
  bool uneven_;
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
  for (const bool uneven : {false, true}) {
    require(stages::register_layer_kind(
        uneven ? kUnevenLayer : kSleepLayer, [uneven](const stages::LayerOptions& options) {
          return std::make_unique<SleepLayer>(options.spec.number, uneven);
        }));
  }
}

}  // namespace headrace::bench
