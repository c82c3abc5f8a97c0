// Threads that share the blocks of one operator.
//
// What it is for: `run` calls a function once per block on the calling thread and on `threads - 1`
// workers; blocks are claimed one by one, so a slow thread takes fewer. What it does not do: queue;
// choose block sizes. Thread rule: one caller at a time; `run` must not be called from inside a
// block.
#pragma once

#include "kernels/cpu/cpu_context.hpp"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace headrace::kernels {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Returns when every block has run, or throws the first exception of a block (StopRequested when
  // `stop` was raised) once no block is running.
  void run(std::int64_t blocks, BlockFunction fn, const std::atomic<bool>* stop);

 private:
  struct alignas(64) Ticket {
    std::atomic<std::uint32_t> number{0};
  };
  struct Job {
    std::int64_t blocks = 0;
    const BlockFunction* fn = nullptr;
    const std::atomic<bool>* stop = nullptr;
  };

  void work(int thread);
  void claim_blocks(int thread);

  // Written by the caller before it raises a worker's ticket, read by that worker after.
  Job job_;
  alignas(64) std::atomic<std::int64_t> next_block_{0};
  alignas(64) std::atomic<std::uint32_t> running_{0};  // workers that have not finished this job
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;  // written by whoever raised failed_, read after running_ is 0
  std::atomic<bool> closing_{false};
  std::vector<Ticket> tickets_;
  std::vector<std::thread> workers_;
};

}  // namespace headrace::kernels
