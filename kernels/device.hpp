// Devices, streams, events and buffers: asynchronous from the first day.
//
// What it is for: work is enqueued on a stream and runs later; an event marks a point of a stream;
// other streams wait for events, the host only asks. The actors are written against this, so that a
// GPU needs no change in them. What it does not do: name any layer or schedule.
//
// Thread rule: a Device is shared; a Stream is used by one host thread at a time; an Event is
// recorded by one stream and may be waited for or queried from any thread after the recording is
// published to it (release/acquire, as a slot's state word does).
//
// Invariants
//  1. Work of one stream runs in order. A wait holds back only what is enqueued after it.
//  2. `wait(event)` waits for the newest recording made before the call; a never recorded event is
//  done.
//  3. Work that throws, or a raised stop flag, fails the stream: later work is skipped, events
//  still
//     complete (nobody hangs), and `failure()` says what happened. The first failure is kept.
//  4. Enqueueing allocates nothing once the stream exists.
#pragma once

#include "runtime/base/status.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace headrace::kernels {

class Operators;

// Device memory. Owns it; 256-byte aligned; zeroed when allocated.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_.get()); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_;
  std::size_t bytes_ = 0;
};

class Event {
 public:
  virtual ~Event() = default;
  // True when the newest recording has been reached (or there is none). Does not block.
  [[nodiscard]] virtual bool done() const = 0;
};

// A host function to be called once all earlier work of a stream is done: `call(context,
// argument)`. Runs on a foreign thread (or inline); it may only post one message or set a flag;
// must not call the device.
struct HostCall {
  void (*call)(void* context, std::uint64_t argument) = nullptr;
  void* context = nullptr;
  std::uint64_t argument = 0;
};

// How far a stream is, for watchdogs.
struct StreamProgress {
  std::uint64_t finished = 0;  // rises (and wraps) while work gets done
  bool in_work = false;        // inside a kernel now, not waiting for an event or for work
};

class Stream {
 public:
  virtual ~Stream() = default;
  virtual void record(Event& event) = 0;
  virtual void wait(const Event& event) = 0;
  virtual void call_host(const HostCall& call) = 0;
  // True when everything enqueued so far has run. Does not block.
  [[nodiscard]] virtual bool idle() const = 0;
  // Blocks until idle. For set-up, tests and shutdown only: never in an actor's handler.
  virtual void synchronize() = 0;
  [[nodiscard]] virtual Status failure() const = 0;
  [[nodiscard]] virtual bool failed() const = 0;  // one atomic load
  // Any thread may ask. A stream that works inside the enqueueing thread has nothing to tell.
  [[nodiscard]] virtual StreamProgress progress() const { return {}; }
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual Buffer allocate(std::size_t bytes) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  // The operators of this device; enqueue only on this device's streams.
  [[nodiscard]] virtual Operators& operators() = 0;
  // e.g. `cpu/avx512bf16/onednn2.6.3/rows256/lanes16/1`: device, ISA, library, block sizes, kernel
  // revision.
  [[nodiscard]] virtual std::string numerics_id() const = 0;
  [[nodiscard]] virtual bool supports_bf16() const = 0;
  // Set-up and inspection only: blocking copies between host and device memory.
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual void copy_from_host(void* device, const void* host, std::size_t bytes) = 0;
};

}  // namespace headrace::kernels
