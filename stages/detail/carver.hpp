// Cuts one arena into aligned regions, or only adds up how long the arena has to be.
//
// What it is for: a layer states the layout of a lifetime once; with a null base the same code
// measures it, with an arena it hands out the pointers. What it does not do: own memory. Thread
// rule: a value.
#pragma once

#include "kernels/dtype.hpp"

#include <cstddef>
#include <cstdint>

namespace headrace::stages {

inline constexpr std::int64_t kRegionAlignment = 256;

[[nodiscard]] constexpr std::int64_t aligned_bytes(std::int64_t bytes) {
  return (bytes + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
}

class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  [[nodiscard]] std::byte* bytes(std::int64_t count) {
    std::byte* region = base_ == nullptr ? nullptr : base_ + used_;
    used_ += aligned_bytes(count);
    return region;
  }
  template <typename T>
  [[nodiscard]] T* array(std::int64_t count) {
    return static_cast<T*>(static_cast<void*>(bytes(count * static_cast<std::int64_t>(sizeof(T)))));
  }
  [[nodiscard]] kernels::Ref tensor(kernels::DType type, std::int64_t count) {
    return {bytes(count * static_cast<std::int64_t>(kernels::bytes_of(type))), type};
  }
  [[nodiscard]] std::int64_t used() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

}  // namespace headrace::stages
