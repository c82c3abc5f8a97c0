// One piece of work of a CPU stream: a function and its arguments, copied by value.
//
// What it is for: enqueueing must not allocate, so a task has a fixed size and is trivially
// copyable. What it does not do: own anything it points to. Thread rule: a value.
#pragma once

#include "kernels/cpu/cpu_context.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace headrace::kernels {

class Task {
 public:
  static constexpr std::size_t kBytes = 256;

  Task() = default;
  template <typename Args>
  Task(void (*function)(CpuContext&, const Args&), const Args& args)
      : call_([](CpuContext& context, const std::byte* payload) {
          Bound<Args> bound;
          std::memcpy(static_cast<void*>(&bound), payload, sizeof(bound));
          bound.function(context, bound.args);
        }) {
    static_assert(sizeof(Bound<Args>) <= kPayloadBytes && std::is_trivially_copyable_v<Args>);
    const Bound<Args> bound{function, args};
    std::memcpy(payload_.data(), static_cast<const void*>(&bound), sizeof(bound));
  }

  void run(CpuContext& context) const { call_(context, payload_.data()); }

 private:
  static constexpr std::size_t kPayloadBytes = kBytes - 16;
  template <typename Args>
  struct Bound {
    void (*function)(CpuContext&, const Args&);
    Args args;
  };

  void (*call_)(CpuContext&, const std::byte*) = nullptr;
  alignas(16) std::array<std::byte, kPayloadBytes> payload_;
};
static_assert(sizeof(Task) == Task::kBytes && std::is_trivially_copyable_v<Task>);

}  // namespace headrace::kernels
