// A CPU stream with a worker thread: work runs later, as on a GPU.
//
// What it is for: to exercise the run-ahead logic of the actors without a GPU, with seeded random
// delays. What it does not do: reorder; grow. The queue is a ring of kCapacity entries; when it is
// full the enqueuing thread yields until there is room. Thread rule: one host thread at a time
// enqueues; the destructor first runs everything that was enqueued (raise the stop flag to skip).
#pragma once

#include "kernels/cpu/cpu_event.hpp"
#include "kernels/cpu/cpu_stream.hpp"

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace headrace::kernels {

struct QueueDelays {
  std::uint64_t seed = 0;  // 0: none
  std::int32_t us_max = 0;
};

class QueuedStream final : public CpuStream {
 public:
  static constexpr std::uint32_t kCapacity = 1024;

  QueuedStream(const CpuContextOptions& options, const QueueDelays& delays);
  ~QueuedStream() override;

  void enqueue(const Task& task) override;
  void record(Event& event) override;
  void wait(const Event& event) override;
  void call_host(const HostCall& call) override;
  [[nodiscard]] bool idle() const override;
  void synchronize() override;
  [[nodiscard]] StreamProgress progress() const override;

 private:
  enum class EntryKind : std::uint8_t { kTask, kRecord, kWait, kCallHost, kClose };
  struct Entry {
    EntryKind kind = EntryKind::kTask;
    CpuEvent* recorded = nullptr;
    const CpuEvent* awaited = nullptr;
    std::uint64_t version = 0;
    HostCall host_call;
    Task task;
  };

  // The free entry at the tail; `publish` hands it to the worker.
  Entry& claim();
  void publish();
  void work();
  void execute(const Entry& entry);
  void delay();

  const QueueDelays delays_;
  std::uint64_t delay_state_;     // owned by the worker
  std::vector<Entry> ring_;       // constant size after construction
  std::uint32_t tail_local_ = 0;  // owned by the enqueuing thread
  // Counts of entries published and finished; they wrap.
  alignas(64) std::atomic<std::uint32_t> published_{0};
  alignas(64) std::atomic<std::uint32_t> finished_{0};
  std::atomic<bool> in_work_{false};  // inside a task
  std::thread worker_;
};

}  // namespace headrace::kernels
