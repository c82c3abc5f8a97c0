// What inline and queued streams share: a context, and the first failure.
//
// What it is for: running one task so that nothing it throws leaves the stream. What it does not
// do: decide when (InlineStream, QueuedStream). Thread rule: `run_task` on one thread; `failure`
// and `failed` on any.
#pragma once

#include "kernels/cpu/cpu_context.hpp"
#include "kernels/cpu/task.hpp"
#include "kernels/device.hpp"

#include <atomic>

namespace headrace::kernels {

class CpuStream : public Stream {
 public:
  explicit CpuStream(const CpuContextOptions& options) : context_(options) {}

  virtual void enqueue(const Task& task) = 0;
  [[nodiscard]] Status failure() const override { return failed() ? failure_ : Status::ok(); }
  [[nodiscard]] bool failed() const override { return failed_.load(std::memory_order_acquire); }

 protected:
  // Runs the task unless the stream has failed; an exception or the stop flag fails the stream.
  void run_task(const Task& task) noexcept;

 private:
  void fail(StatusCode code, const char* text) noexcept;

  CpuContext context_;
  Status failure_;  // written once, before failed_ is raised
  std::atomic<bool> failed_{false};
};

}  // namespace headrace::kernels
