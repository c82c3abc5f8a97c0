// The operators of the CPU device that know no layer: elementwise, reductions, optimizers, random.
//
// What it is for: plain functions that CpuOperators enqueues; kernels/operators.hpp states shapes,
// dtypes and what is overwritten. What it does not do: enqueue. Thread rule: one operator at a time
// per context.
#pragma once

#include "kernels/cpu/cpu_context.hpp"
#include "kernels/operators.hpp"

#include <cstdint>

namespace headrace::kernels {

struct ConvertArgs {
  ConstRef from;
  Ref to;
  std::int64_t count = 0;
};
struct AddArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::int64_t count = 0;
};
struct FillArgs {
  float* x = nullptr;
  float value = 0;
  std::int64_t count = 0;
};
struct CopyArgs {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t bytes = 0;
};
struct SleepArgs {
  std::int64_t nanoseconds = 0;
};

void convert(CpuContext& context, const ConvertArgs& args);
void add(CpuContext& context, const AddArgs& args);
void fill(CpuContext& context, const FillArgs& args);
void copy(CpuContext& context, const CopyArgs& args);
// Tests the stop flag once a millisecond.
void sleep(CpuContext& context, const SleepArgs& args);

void column_sum(CpuContext& context, const ColumnSumArgs& args);
void sum_squares(CpuContext& context, const SumSquaresArgs& args);
void find_non_finite(CpuContext& context, const FindNonFiniteArgs& args);

void adamw(CpuContext& context, const AdamwArgs& args);
void sgd(CpuContext& context, const SgdArgs& args);

void fill_normal(CpuContext& context, const FillNormalArgs& args);

}  // namespace headrace::kernels
