// Events of the CPU device: two version counters.
//
// What it is for: `record` takes the next version and the stream publishes it when it gets there;
// `wait` captures the newest version at the call. What it does not do: belong to a stream; the
// owner keeps it alive until the streams that use it are idle. Thread rule: see kernels/device.hpp.
#pragma once

#include "kernels/device.hpp"

#include <atomic>
#include <cstdint>

namespace headrace::kernels {

class CpuEvent final : public Event {
 public:
  [[nodiscard]] bool done() const override {
    return reached(recorded_.load(std::memory_order_acquire));
  }

  // The version of a recording that is being enqueued.
  [[nodiscard]] std::uint64_t next_version() {
    return recorded_.fetch_add(1, std::memory_order_acq_rel) + 1;
  }
  [[nodiscard]] std::uint64_t newest_version() const {
    return recorded_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool reached(std::uint64_t version) const {
    return completed_.load(std::memory_order_acquire) >= version;
  }
  void reach(std::uint64_t version) {
    completed_.store(version, std::memory_order_release);
    completed_.notify_all();
  }
  void block_until(std::uint64_t version) const {
    for (;;) {
      const std::uint64_t completed = completed_.load(std::memory_order_acquire);
      if (completed >= version) return;
      completed_.wait(completed, std::memory_order_acquire);
    }
  }

 private:
  std::atomic<std::uint64_t> recorded_{0};
  std::atomic<std::uint64_t> completed_{0};
};

}  // namespace headrace::kernels
