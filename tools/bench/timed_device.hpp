// A device that times each operator it runs, by class of operator.
//
// What it is for: where the time of a training step goes, at the step's own shapes, from the step
// itself. It wraps an inline CPU device of one thread; every call runs inside the enqueueing
// thread, so that its wall time is its cost. What it does not do: change what is computed. Thread
// rule: one thread.
#pragma once

#include "kernels/device.hpp"
#include "kernels/operators.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>

namespace headrace::bench {

struct OperatorCost {
  double seconds = 0;
  std::int64_t calls = 0;
  std::int64_t allocations = 0;  // heap allocations while it ran; 0 unless they are counted
};

// Everything oneDNN specialises a product for, and how often it was asked.
struct GemmShape {
  std::int64_t rows = 0, cols = 0, inner = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false, bias = false;
  kernels::DType in = kernels::DType::kF32, out = kernels::DType::kF32;

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(cols) * static_cast<double>(inner);
  }
  [[nodiscard]] auto key() const {
    return std::tuple(rows, cols, inner, transpose_a, transpose_b, accumulate, bias, in, out);
  }
  bool operator<(const GemmShape& other) const { return key() < other.key(); }
};

struct OperatorTimes {
  std::map<std::string, OperatorCost, std::less<>>
      costs;  // by class: `matmul forward`, `norm backward`
  std::map<GemmShape, std::int64_t> products;
  double gemm_flops = 0;
  double attention_flops = 0;  // the causal half of QK^T and PV and of their gradients

  // Keeps the entries, so that counting again allocates nothing.
  void clear() {
    for (auto& [name, cost] : costs) cost = {};
    for (auto& [shape, count] : products) count = 0;
    gemm_flops = attention_flops = 0;
  }
};

// times outlives the device.
[[nodiscard]] std::unique_ptr<kernels::Device> make_timed_device(OperatorTimes& times);

}  // namespace headrace::bench
