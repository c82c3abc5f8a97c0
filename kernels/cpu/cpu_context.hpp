// What a CPU operator computes with: threads, the stop flag, scratch.
//
// What it is for: an operator is a plain function `void name(CpuContext&, const NameArgs&)`; it
// splits its work into blocks that never depend on the thread count, and the context spreads the
// blocks over threads. What it does not do: decide block sizes (the operators do, by [Note: bits]);
// queue work (the streams do).
//
// Thread rule: one operator at a time uses a context. `thread` in the callbacks is 0..threads()-1
// and names the per-thread scratch; which thread runs which block is arbitrary.
//
// Invariants
//  1. `parallel_for` calls fn once per block, or throws: StopRequested when the stop flag is raised
//     (tested before every block), or the first exception that fn threw. On return no fn is
//     running.
//  2. Nothing allocates once scratch has grown to its largest use.
#pragma once

#include "runtime/base/broken_rule.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace headrace::kernels {

class OnednnMatmul;
class ThreadPool;

// Thrown between two blocks when the owner of the device raised its stop flag.
class StopRequested : public std::runtime_error {
 public:
  StopRequested() : std::runtime_error("stopped on request between two blocks of a kernel") {}
};

// A borrowed callable `void(std::int64_t block, int thread)`; must outlive the call it is passed
// to.
class BlockFunction {
 public:
  template <typename F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, BlockFunction>)
      BlockFunction(F&& f)  // NOLINT(google-explicit-constructor)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_([](void* object, std::int64_t block, int thread) {
          (*static_cast<std::remove_reference_t<F>*>(object))(block, thread);
        }) {}
  void operator()(std::int64_t block, int thread) const { call_(object_, block, thread); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, int);
};

// Memory that only grows; 64-byte aligned, contents undefined.
class Scratch {
 public:
  template <typename T>
  [[nodiscard]] T* get(std::int64_t count) {
    reserve(static_cast<std::size_t>(count) * sizeof(T));
    return static_cast<T*>(static_cast<void*>(data_.get()));
  }

 private:
  struct AlignedDelete {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  void reserve(std::size_t bytes);

  std::unique_ptr<std::byte, AlignedDelete> data_;
  std::size_t bytes_ = 0;
};

// Rows of one block of a GEMM and of a reduction over tokens.
inline constexpr std::int64_t kBlockRows = 256;
// Elements of one block of an elementwise operator (any value gives the same bits).
inline constexpr std::int64_t kElementBlock = 16384;
// Elements of one block of a sum of squares.
inline constexpr std::int64_t kNormBlock = 65536;

[[nodiscard]] constexpr std::int64_t block_count(std::int64_t count, std::int64_t block_size) {
  return (count + block_size - 1) / block_size;
}

struct CpuContextOptions {
  int threads = 1;
  const std::atomic<bool>* stop = nullptr;  // may be null; must outlive the context
  BrokenRule broken_rule = BrokenRule::kNone;
};

class CpuContext {
 public:
  explicit CpuContext(const CpuContextOptions& options);
  ~CpuContext();
  CpuContext(const CpuContext&) = delete;
  CpuContext& operator=(const CpuContext&) = delete;

  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] BrokenRule broken_rule() const { return broken_rule_; }
  [[nodiscard]] bool stop_requested() const {
    return stop_ != nullptr && stop_->load(std::memory_order_relaxed);
  }
  void throw_if_stopped() const {
    if (stop_requested()) throw StopRequested();
  }

  // Calls fn(block, thread) for block = 0..blocks-1, in no fixed order and on several threads.
  void parallel_for(std::int64_t blocks, BlockFunction fn);
  // Calls fn(begin, end, thread) for consecutive ranges of `block_size` indices that cover
  // 0..count.
  template <typename F>
  void parallel_ranges(std::int64_t count, std::int64_t block_size, F&& fn) {
    parallel_for(block_count(count, block_size), [&](std::int64_t block, int thread) {
      const std::int64_t begin = block * block_size;
      const std::int64_t end = begin + block_size < count ? begin + block_size : count;
      fn(begin, end, thread);
    });
  }

  // Rows of a block of a reduction over `rows` tokens: 256. (BrokenRule::kTokenBlocks: by threads.)
  [[nodiscard]] std::int64_t token_block_rows(std::int64_t rows) const;
  // Rows of a block of a GEMM: 256. (BrokenRule::kGemmBlocks: by threads.)
  [[nodiscard]] std::int64_t gemm_block_rows(std::int64_t rows) const;

  // Scratch of one thread, for use inside fn; and one for the operator as a whole.
  [[nodiscard]] Scratch& thread_scratch(int thread) {
    return thread_scratch_[static_cast<std::size_t>(thread)];
  }
  [[nodiscard]] Scratch& shared_scratch() { return shared_scratch_; }
  [[nodiscard]] OnednnMatmul& onednn_matmul() { return *matmul_; }

 private:
  const int threads_;
  const std::atomic<bool>* const stop_;
  const BrokenRule broken_rule_;
  std::vector<Scratch> thread_scratch_;
  Scratch shared_scratch_;
  std::unique_ptr<OnednnMatmul> matmul_;
  std::unique_ptr<ThreadPool> pool_;  // started by the first parallel_for that needs it
};

// Sets up the calling thread for computing while it lives: one OpenMP thread for oneDNN, and MXCSR
// 0x1F80 (round to nearest, no flush to zero, no denormals-are-zero, all exceptions masked);
// restores MXCSR at the end.
class ComputeThreadScope {
 public:
  ComputeThreadScope();
  ~ComputeThreadScope();
  ComputeThreadScope(const ComputeThreadScope&) = delete;
  ComputeThreadScope& operator=(const ComputeThreadScope&) = delete;

 private:
  unsigned saved_mxcsr_;
};

}  // namespace headrace::kernels
