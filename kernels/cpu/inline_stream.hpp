// A CPU stream that runs its work at once, in the enqueueing thread.
//
// What it is for: the normal mode of the CPU device; a rank's actor thread computes. What it does
// not do: run anything later, so it is always idle. Thread rule: one host thread at a time.
#pragma once

#include "kernels/cpu/cpu_stream.hpp"

namespace headrace::kernels {

class InlineStream final : public CpuStream {
 public:
  using CpuStream::CpuStream;

  void enqueue(const Task& task) override;
  void record(Event& event) override;
  // Blocks only if a queued stream recorded the event.
  void wait(const Event& event) override;
  void call_host(const HostCall& call) override;
  [[nodiscard]] bool idle() const override { return true; }
  void synchronize() override {}
};

}  // namespace headrace::kernels
