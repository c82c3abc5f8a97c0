// The CPU device: a full backend, and the reference for every other.
//
// What it is for: inline mode runs work inside the enqueueing thread; queued mode gives each stream
// a worker thread with seeded random delays, so that run-ahead logic is exercised without a GPU.
// Row blocks of an operator are spread over `threads` threads; which thread runs a block never
// changes its bits. What it does not do: pin threads. Thread rule: see device.hpp; in inline mode
// one stream at a time uses the thread pool of its device.
#pragma once

#include "kernels/device.hpp"
#include "runtime/base/broken_rule.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

namespace headrace::kernels {

struct CpuDeviceOptions {
  std::int32_t threads = 1;         // 1..256, threads that share one operator's row blocks
  bool queued = false;              // a worker per stream instead of inline
  std::uint64_t delay_seed = 0;     // queued: seed of the random delays; 0 = no delays
  std::int32_t delay_us_max = 200;  // queued: each task is delayed 0..this (with a seed)
  // Raised by the owner to abort: kernels test it between row blocks. May be null. Must outlive the
  // device.
  const std::atomic<bool>* stop = nullptr;
  BrokenRule broken_rule = BrokenRule::kNone;
};

[[nodiscard]] std::unique_ptr<Device> make_cpu_device(const CpuDeviceOptions& options);

}  // namespace headrace::kernels
