#include "kernels/cpu/inline_stream.hpp"

#include "kernels/cpu/cpu_event.hpp"

namespace headrace::kernels {

void InlineStream::enqueue(const Task& task) {
  const ComputeThreadScope scope;
  run_task(task);
}

void InlineStream::record(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  cpu_event.reach(cpu_event.next_version());
}

void InlineStream::wait(const Event& event) {
  const auto& cpu_event = static_cast<const CpuEvent&>(event);
  cpu_event.block_until(cpu_event.newest_version());
}

void InlineStream::call_host(const HostCall& call) { call.call(call.context, call.argument); }

}  // namespace headrace::kernels
