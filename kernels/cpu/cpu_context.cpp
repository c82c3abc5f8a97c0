#include "kernels/cpu/cpu_context.hpp"

#include "kernels/cpu/onednn_matmul.hpp"
#include "kernels/cpu/thread_pool.hpp"

#include <algorithm>
#include <immintrin.h>
#include <omp.h>

namespace headrace::kernels {
namespace {

constexpr unsigned kMxcsrDefault = 0x1F80;
constexpr unsigned kMxcsrStickyFlags = 0x003F;

}  // namespace

void Scratch::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return;
  data_.reset();
  bytes_ = 0;
  data_.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{64})));
  bytes_ = bytes;
}

CpuContext::CpuContext(const CpuContextOptions& options)
    : threads_(options.threads),
      stop_(options.stop),
      broken_rule_(options.broken_rule),
      thread_scratch_(static_cast<std::size_t>(options.threads)),
      matmul_(std::make_unique<OnednnMatmul>(options.threads)) {}

CpuContext::~CpuContext() = default;

void CpuContext::parallel_for(std::int64_t blocks, BlockFunction fn) {
  if (threads_ == 1 || blocks < 2) {
    for (std::int64_t block = 0; block < blocks; ++block) {
      throw_if_stopped();
      fn(block, 0);
    }
    return;
  }
  // Streams that never compute in parallel never start threads.
  if (!pool_) pool_ = std::make_unique<ThreadPool>(threads_);
  pool_->run(blocks, fn, stop_);
}

std::int64_t CpuContext::token_block_rows(std::int64_t rows) const {
  if (broken_rule_ != BrokenRule::kTokenBlocks) return kBlockRows;
  return std::max<std::int64_t>(1, block_count(rows, threads_));
}

std::int64_t CpuContext::gemm_block_rows(std::int64_t rows) const {
  if (broken_rule_ != BrokenRule::kGemmBlocks) return kBlockRows;
  return std::max<std::int64_t>(1, block_count(rows, threads_));
}

ComputeThreadScope::ComputeThreadScope() : saved_mxcsr_(_mm_getcsr()) {
  // oneDNN asks OpenMP for a team per calling thread; its threads change bits at large inner sizes.
  omp_set_num_threads(1);
  if ((saved_mxcsr_ & ~kMxcsrStickyFlags) != kMxcsrDefault) _mm_setcsr(kMxcsrDefault);
}

ComputeThreadScope::~ComputeThreadScope() {
  if ((saved_mxcsr_ & ~kMxcsrStickyFlags) != kMxcsrDefault) _mm_setcsr(saved_mxcsr_);
}

}  // namespace headrace::kernels
