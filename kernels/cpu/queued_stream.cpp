#include "kernels/cpu/queued_stream.hpp"

#include <chrono>

namespace headrace::kernels {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): only for delays, never for numbers.
std::uint64_t next_random(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31U);
}

}  // namespace

QueuedStream::QueuedStream(const CpuContextOptions& options, const QueueDelays& delays)
    : CpuStream(options), delays_(delays), delay_state_(delays.seed), ring_(kCapacity) {
  worker_ = std::thread([this] { work(); });
}

QueuedStream::~QueuedStream() {
  claim().kind = EntryKind::kClose;
  publish();
  worker_.join();
}

void QueuedStream::enqueue(const Task& task) {
  Entry& entry = claim();
  entry.kind = EntryKind::kTask;
  entry.task = task;
  publish();
}

void QueuedStream::record(Event& event) {
  Entry& entry = claim();
  entry.kind = EntryKind::kRecord;
  entry.recorded = &static_cast<CpuEvent&>(event);
  entry.version = entry.recorded->next_version();
  publish();
}

void QueuedStream::wait(const Event& event) {
  Entry& entry = claim();
  entry.kind = EntryKind::kWait;
  entry.awaited = &static_cast<const CpuEvent&>(event);
  entry.version = entry.awaited->newest_version();
  publish();
}

void QueuedStream::call_host(const HostCall& call) {
  Entry& entry = claim();
  entry.kind = EntryKind::kCallHost;
  entry.host_call = call;
  publish();
}

bool QueuedStream::idle() const {
  return finished_.load(std::memory_order_acquire) == published_.load(std::memory_order_relaxed);
}

StreamProgress QueuedStream::progress() const {
  return {finished_.load(std::memory_order_acquire), in_work_.load(std::memory_order_relaxed)};
}

void QueuedStream::synchronize() {
  const std::uint32_t target = published_.load(std::memory_order_relaxed);
  for (;;) {
    const std::uint32_t finished = finished_.load(std::memory_order_acquire);
    if (finished == target) return;
    finished_.wait(finished, std::memory_order_acquire);
  }
}

QueuedStream::Entry& QueuedStream::claim() {
  while (tail_local_ - finished_.load(std::memory_order_acquire) == kCapacity) {
    std::this_thread::yield();
  }
  return ring_[tail_local_ % kCapacity];
}

void QueuedStream::publish() {
  published_.store(++tail_local_, std::memory_order_release);
  published_.notify_one();
}

void QueuedStream::work() {
  const ComputeThreadScope scope;
  for (std::uint32_t done = 0;; ++done) {
    published_.wait(done, std::memory_order_acquire);
    const Entry& entry = ring_[done % kCapacity];
    if (entry.kind == EntryKind::kClose) return;
    execute(entry);
    finished_.store(done + 1, std::memory_order_release);
    finished_.notify_all();
  }
}

void QueuedStream::execute(const Entry& entry) {
  delay();
  switch (entry.kind) {
    case EntryKind::kTask:
      in_work_.store(true, std::memory_order_relaxed);
      run_task(entry.task);
      in_work_.store(false, std::memory_order_relaxed);
      return;
    case EntryKind::kRecord:
      entry.recorded->reach(entry.version);
      return;
    case EntryKind::kWait:
      entry.awaited->block_until(entry.version);
      return;
    case EntryKind::kCallHost:
      entry.host_call.call(entry.host_call.context, entry.host_call.argument);
      return;
    case EntryKind::kClose:
      return;
  }
}

void QueuedStream::delay() {
  // A failed stream only completes its events: quickly.
  if (delays_.seed == 0 || delays_.us_max <= 0 || failed()) return;
  const auto range = static_cast<std::uint64_t>(delays_.us_max) + 1;
  const std::uint64_t us = next_random(delay_state_) % range;
  if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
}

}  // namespace headrace::kernels
