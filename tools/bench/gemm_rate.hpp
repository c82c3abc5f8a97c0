// The rate of oneDNN's matrix product on one core.
//
// What it is for: the denominator of the training step. Products run through the kernels' wrapper
// on a device that hands oneDNN the whole matrix instead of blocks of 256 rows, so that the rate is
// oneDNN's and not ours. What it does not do: pick the best of many. Thread rule: one thread.
#pragma once

#include "kernels/device.hpp"
#include "tools/bench/timed_device.hpp"

#include <cstdint>
#include <memory>

namespace headrace::bench {

class GemmRate {
 public:
  // blocks: products in the blocks of 256 rows that training uses, instead of whole.
  explicit GemmRate(bool blocks = false);

  // FLOP per second of one shape: the best of `tries` runs, warm caches.
  [[nodiscard]] double rate(const GemmShape& shape, int tries);
  // Seconds of one call, the best of `tries`.
  [[nodiscard]] double seconds(const GemmShape& shape, int tries);

 private:
  std::unique_ptr<kernels::Device> device_;
  std::unique_ptr<kernels::Stream> stream_;
  kernels::Buffer a_, b_, c_, bias_;
};

}  // namespace headrace::bench
