// Equal frames for one lifetime of a stage's microbatches, all allocated at once.
//
// What it is for: a microbatch takes a frame at the start of the lifetime and gives it back at the
// end; nothing allocates in between. What it does not do: wait for a free frame (the validated
// program says how many there are). Thread rule: owned by the stage's thread.
#pragma once

#include "kernels/device.hpp"
#include "runtime/base/check.hpp"
#include "runtime/base/ids.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace::stages {

class FramePool {
 public:
  struct Size {
    std::int64_t frame_bytes = 0;
    std::int32_t frames = 0;
    std::int32_t microbatches = 0;
  };
  FramePool() = default;
  FramePool(kernels::Device& device, const Size& size)
      : frame_bytes_(size.frame_bytes),
        frame_of_(static_cast<std::size_t>(size.microbatches), kFree) {
    memory_ = device.allocate(static_cast<std::size_t>(size.frame_bytes * size.frames));
    for (std::int32_t frame = size.frames; frame-- > 0;) free_.push_back(frame);
  }

  void take(MicrobatchIndex m) {
    HEADRACE_CHECK(frame_of_[m.index()] == kFree, "microbatch", m.value, "already has a frame");
    HEADRACE_CHECK(!free_.empty(), "no frame is free for microbatch", m.value);
    frame_of_[m.index()] = free_.back();
    free_.pop_back();
  }
  // Null when frames are empty.
  [[nodiscard]] std::byte* at(MicrobatchIndex m) const {
    const std::int32_t frame = frame_of_[m.index()];
    HEADRACE_CHECK(frame != kFree, "microbatch", m.value, "has no frame");
    return frame_bytes_ == 0 ? nullptr : memory_.data() + frame_bytes_ * frame;
  }
  void release(MicrobatchIndex m) {
    HEADRACE_CHECK(frame_of_[m.index()] != kFree, "microbatch", m.value, "has no frame");
    free_.push_back(frame_of_[m.index()]);
    frame_of_[m.index()] = kFree;
  }
  [[nodiscard]] std::int32_t in_use() const {
    std::int32_t count = 0;
    for (const std::int32_t frame : frame_of_) count += frame == kFree ? 0 : 1;
    return count;
  }

 private:
  static constexpr std::int32_t kFree = -1;
  std::int64_t frame_bytes_ = 0;
  kernels::Buffer memory_;
  std::vector<std::int32_t> free_;      // never longer than it was at the start
  std::vector<std::int32_t> frame_of_;  // by microbatch
};

}  // namespace headrace::stages
