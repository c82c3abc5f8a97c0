// Layer normalisation or RMS normalisation as a piece of other layers.
//
// What it is for: one place for both kinds and for their weight gradients.
//
// [Note: norm parts] The sums for gain and bias need x, the gradient and the row statistics, of
// which most end with backward_input. So backward_input finishes this microbatch's sums ([C] floats
// each, kept I .. W) and backward_weight adds them. It is the one and only way: B does the same.
//
// What it does not do: keep x or its statistics (its owner does). Thread rule: constant after
// construction; calls enqueue on call.stream.
#pragma once

#include "stages/detail/carver.hpp"
#include "stages/layer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::stages {

struct NormOptions {
  std::string name;  // `block.7.norm1`
  std::int64_t width = 0;
  bool rms = false;  // no mean, no bias
};

// Row statistics, F .. I.
struct NormStatistics {
  float* mean = nullptr;
  float* rstd = nullptr;
};
// [Note: norm parts], I .. W.
struct NormParts {
  float* gain = nullptr;
  float* bias = nullptr;
};

class NormPiece {
 public:
  NormPiece(const NormOptions& options, std::vector<ParameterSpec>& parameters);

  [[nodiscard]] NormStatistics carve_statistics(Carver& arena, std::int64_t rows) const;
  [[nodiscard]] NormParts carve_parts(Carver& arena) const;

  struct Backward {
    kernels::ConstRef x;
    kernels::ConstRef dy;
    kernels::ConstRef residual;  // data null: none
    kernels::Ref dx;
    NormStatistics statistics;
    NormParts parts;
  };
  void forward(const LayerCall& call, kernels::ConstRef x, kernels::Ref y,
               const NormStatistics& statistics) const;
  void backward_input(const LayerCall& call, const Backward& backward) const;
  void backward_weight(const LayerCall& call, const NormParts& parts) const;

  [[nodiscard]] double forward_flops(std::int64_t rows) const;

 private:
  NormOptions options_;
  std::size_t gain_index_;
};

}  // namespace headrace::stages
