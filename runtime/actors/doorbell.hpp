// The doorbell: wakes a rank that has published "idle", once.
//
// What it is for: a transfer rings the peer only if it sleeps; a rank that is awake polls the
// slots' words and costs nobody a message. What it does not do: carry data. Thread rule: ring and
// sleep from any thread; the hook is set before the first use.
//
// Protocol: a rank stores idle, then looks once more at what it waits for (both sequentially
// consistent); a producer publishes, then looks at idle. One of the two sees the other.
#pragma once

#include "runtime/base/ids.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace headrace::actors {

class Doorbell {
 public:
  explicit Doorbell(std::int32_t ranks)
      : idle_(std::make_unique<Flag[]>(static_cast<std::size_t>(ranks))) {}

  // `wake(rank)` posts one message; set before anybody rings.
  void set_hook(std::function<void(Rank)> wake) { wake_ = std::move(wake); }

  void ring(Rank rank) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    std::atomic<bool>& idle = idle_[rank.index()].value;
    if (!idle.load(std::memory_order_relaxed)) return;
    if (idle.exchange(false, std::memory_order_acq_rel)) wake_(rank);
  }
  void sleep(Rank rank) {
    idle_[rank.index()].value.store(true, std::memory_order_seq_cst);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void awake(Rank rank) { idle_[rank.index()].value.store(false, std::memory_order_release); }

 private:
  struct alignas(64) Flag {
    std::atomic<bool> value{false};
  };

  std::function<void(Rank)> wake_;
  std::unique_ptr<Flag[]> idle_;
};

}  // namespace headrace::actors
