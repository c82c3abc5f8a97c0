#include "kernels/cpu/thread_pool.hpp"

#include <algorithm>
#include <utility>

namespace headrace::kernels {

ThreadPool::ThreadPool(int threads) : tickets_(static_cast<std::size_t>(threads - 1)) {
  workers_.reserve(tickets_.size());
  for (int thread = 1; thread < threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  closing_.store(true, std::memory_order_relaxed);
  for (Ticket& ticket : tickets_) {
    ticket.number.fetch_add(1, std::memory_order_release);
    ticket.number.notify_one();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t blocks, BlockFunction fn, const std::atomic<bool>* stop) {
  job_ = {blocks, &fn, stop};
  next_block_.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(blocks - 1, 0));
  const std::size_t workers = std::min(tickets_.size(), wanted);
  running_.store(static_cast<std::uint32_t>(workers), std::memory_order_relaxed);
  for (std::size_t i = 0; i < workers; ++i) {
    tickets_[i].number.fetch_add(1, std::memory_order_release);
    tickets_[i].number.notify_one();
  }
  claim_blocks(0);
  for (;;) {
    const std::uint32_t running = running_.load(std::memory_order_acquire);
    if (running == 0) break;
    running_.wait(running, std::memory_order_acquire);
  }
  if (failed_.load(std::memory_order_acquire)) {
    std::rethrow_exception(std::exchange(failure_, nullptr));
  }
}

void ThreadPool::work(int thread) {
  const ComputeThreadScope scope;
  std::atomic<std::uint32_t>& ticket = tickets_[static_cast<std::size_t>(thread - 1)].number;
  for (std::uint32_t seen = 0;; ++seen) {
    ticket.wait(seen, std::memory_order_acquire);
    if (closing_.load(std::memory_order_relaxed)) return;
    claim_blocks(thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

void ThreadPool::claim_blocks(int thread) {
  try {
    for (;;) {
      if (failed_.load(std::memory_order_relaxed)) return;
      const std::int64_t block = next_block_.fetch_add(1, std::memory_order_relaxed);
      if (block >= job_.blocks) return;
      if (job_.stop != nullptr && job_.stop->load(std::memory_order_relaxed)) {
        throw StopRequested();
      }
      (*job_.fn)(block, thread);
    }
  } catch (...) {
    // Only the first failure is kept; running_ publishes it to the caller.
    if (!failed_.exchange(true, std::memory_order_acq_rel)) failure_ = std::current_exception();
  }
}

}  // namespace headrace::kernels
