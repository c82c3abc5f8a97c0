// The neural-network operators of the CPU device as plain functions.
//
// What it is for: each computes one operator of kernels/operators.hpp, whose comments state shapes,
// dtypes and what is overwritten. What it does not do: enqueue (CpuOperators does). Thread rule:
// one operator at a time per context.
#pragma once

#include "kernels/cpu/cpu_context.hpp"
#include "kernels/operators.hpp"

#include <cstdint>

namespace headrace::kernels {

void embedding_forward(CpuContext& context, const EmbeddingForwardArgs& args);
void embedding_backward(CpuContext& context, const EmbeddingBackwardArgs& args);
void norm_forward(CpuContext& context, const NormForwardArgs& args);
void norm_backward(CpuContext& context, const NormBackwardArgs& args);
void activation_forward(CpuContext& context, const ActivationForwardArgs& args);
void activation_backward(CpuContext& context, const ActivationBackwardArgs& args);
void rope(CpuContext& context, const RopeArgs& args);
void rope_table(CpuContext& context, const RopeTableArgs& args);
void attention_forward(CpuContext& context, const AttentionForwardArgs& args);
void attention_backward(CpuContext& context, const AttentionBackwardArgs& args);
void residual_forward(CpuContext& context, const ResidualForwardArgs& args);
void dropout_backward(CpuContext& context, const DropoutBackwardArgs& args);
void cross_entropy_forward(CpuContext& context, const CrossEntropyForwardArgs& args);
void cross_entropy_backward(CpuContext& context, const CrossEntropyBackwardArgs& args);

[[nodiscard]] std::int64_t attention_workspace_bytes(std::int64_t batch, std::int64_t positions,
                                                     std::int64_t heads, std::int64_t kv_heads,
                                                     std::int64_t head_width);

}  // namespace headrace::kernels
