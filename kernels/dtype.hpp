// Element types of buffers.
//
// What it is for: sizes and names of what a buffer holds. What it does not do: conversions
// (operators). Thread rule: constant data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace headrace::kernels {

enum class DType : std::uint8_t { kF32, kBf16, kI32, kF64 };

[[nodiscard]] constexpr std::size_t bytes_of(DType type) {
  switch (type) {
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBf16:
      return 2;
    case DType::kF64:
      return 8;
  }
  return 0;
}

[[nodiscard]] constexpr std::string_view to_string(DType type) {
  switch (type) {
    case DType::kF32:
      return "f32";
    case DType::kBf16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kF64:
      return "f64";
  }
  return "unknown";
}

// A typed pointer to device memory; does not own it.
struct Ref {
  void* data = nullptr;
  DType type = DType::kF32;
};
struct ConstRef {
  const void* data = nullptr;
  DType type = DType::kF32;

  ConstRef() = default;
  ConstRef(const void* d, DType t) : data(d), type(t) {}
  ConstRef(Ref ref) : data(ref.data), type(ref.type) {}  // NOLINT(google-explicit-constructor)
};

}  // namespace headrace::kernels
