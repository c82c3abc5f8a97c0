// Matrix multiplication through oneDNN 2.6, in blocks of output rows.
//
// What it is for: the one home of oneDNN's types. Each block of 256 output rows is one primitive
// executed by one thread, so the bits do not depend on the thread count ([Note: gemm blocks]).
// What it does not do: let oneDNN use threads of its own; create primitives in steady state (they
// are kept per shape and thread). Thread rule: `multiply` by one caller at a time.
#pragma once

#include "kernels/operators.hpp"

#include <memory>
#include <string>

namespace headrace::kernels {

class CpuContext;

class OnednnMatmul {
 public:
  explicit OnednnMatmul(int threads);
  ~OnednnMatmul();
  OnednnMatmul(const OnednnMatmul&) = delete;
  OnednnMatmul& operator=(const OnednnMatmul&) = delete;

  // @throws DeviceError with oneDNN's status when a primitive cannot be made or fails.
  void multiply(CpuContext& context, const MatmulArgs& args);

 private:
  struct ThreadCache;
  std::unique_ptr<ThreadCache[]> caches_;  // one per thread, used by that thread only
};

// The operator: args.c = op(a) * op(b) …
void matmul(CpuContext& context, const MatmulArgs& args);

enum class OnednnIsa { kNone, kAvx2, kAvx512, kAvx512Bf16, kAvx512Amx };
// The instruction set oneDNN uses. Unless DNNL_MAX_CPU_ISA sets another limit, it is limited to
// AVX-512 with bf16, so that a machine with more (AMX) gives the same bits. Must be asked before
// the first primitive is made.
[[nodiscard]] OnednnIsa limit_onednn_isa();
[[nodiscard]] std::string onednn_version();  // e.g. "2.6.3"

}  // namespace headrace::kernels
