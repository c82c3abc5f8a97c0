#include "kernels/cpu/cpu_stream.hpp"

#include "kernels/device_error.hpp"

#include <exception>

namespace headrace::kernels {

void CpuStream::run_task(const Task& task) noexcept {
  if (failed()) return;
  try {
    context_.throw_if_stopped();
    task.run(context_);
  } catch (const StopRequested& stop) {
    fail(StatusCode::kCancelled, stop.what());
  } catch (const DeviceError& error) {
    fail(StatusCode::kDeviceFailed, error.what());
  } catch (const std::exception& error) {
    fail(StatusCode::kStageFailed, error.what());
  } catch (...) {
    fail(StatusCode::kStageFailed, "an exception without text left a kernel");
  }
}

void CpuStream::fail(StatusCode code, const char* text) noexcept {
  failure_ = Status(code, text);
  failed_.store(true, std::memory_order_release);
}

}  // namespace headrace::kernels
