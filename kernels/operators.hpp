// The operators of a device: what layers and optimizers enqueue.
//
// What it is for: one virtual function per fused operator and direction; forward, input gradient
// and weight gradient are separate. What it does not do: know of layers, stages or schedules;
// allocate. Thread rule: stateless for its callers; each call enqueues on the given stream and does
// not synchronise. All pointers are device memory that the caller keeps alive until the work has
// run.
//
// Shapes (GLOSSARY): B sequences, T positions, n = B*T rows (tokens), C width, H heads, G key/value
// heads, D head width, V vocabulary. Everything is row-major and dense unless a stride is given.
//
// Bits (docs/ARCHITECTURE.md): GEMM in blocks of 256 output rows, each by one thread; reductions
// use 16 virtual lanes; reductions over tokens use fixed 256-row blocks in order; no libm; no
// contraction other than written fused multiply-adds.
#pragma once

#include "kernels/device.hpp"
#include "kernels/dtype.hpp"
#include "kernels/philox.hpp"

#include <cstdint>

namespace headrace::kernels {

// c[rows,cols] = op(a)[rows,inner] * op(b)[inner,cols] (+ c if accumulate) (+ bias[cols], fp32).
// a and b have one dtype (f32, or bf16 with fp32 accumulation); c is f32 or (without accumulate)
// bf16. transpose_a: a is stored [inner,rows]; transpose_b: b is stored [cols,inner].
struct MatmulArgs {
  ConstRef a;
  ConstRef b;
  Ref c;
  std::int64_t rows = 0, cols = 0, inner = 0;
  bool transpose_a = false, transpose_b = false;
  bool accumulate = false;
  const float* bias = nullptr;
};

// sum[cols] += column sums of x[rows,cols] (x f32 or bf16), fixed 256-row blocks in order.
struct ColumnSumArgs {
  ConstRef x;
  float* sum = nullptr;
  std::int64_t rows = 0, cols = 0;
};

// y[n,C] = dropout(token[id] + position[t]); position may be null. y f32 or bf16.
struct DropoutSite {
  PhiloxKey key;
  std::uint32_t sample_first = 0;  // global sample index (within the step's batch) of row 0
  std::uint32_t site = 0;          // make_site(layer, use)
  float probability = 0;           // 0 = off; kept values are scaled by 1/(1-probability)
};
struct EmbeddingForwardArgs {
  const std::int32_t* ids = nullptr;  // [B,T]
  const float* token = nullptr;       // [V,C]
  const float* position = nullptr;    // [T,C] or null
  Ref y;
  std::int64_t batch = 0, positions = 0, width = 0;
  DropoutSite dropout;
};
// dtoken[id] += rows in ascending position per id; dposition[t] += in ascending sample. dy is
// already masked (dropout_backward). dtoken / dposition may be null (frozen).
struct EmbeddingBackwardArgs {
  const std::int32_t* ids = nullptr;
  ConstRef dy;
  float* dtoken = nullptr;
  float* dposition = nullptr;
  std::int64_t batch = 0, positions = 0, width = 0, vocabulary = 0;
};

// y = (x-mean)*rstd*gain+bias, or RMSNorm: y = x*rstd*gain when mean is null and bias is null.
// x, y f32 or bf16; gain, bias, mean[n], rstd[n] f32.
struct NormForwardArgs {
  ConstRef x;
  const float* gain = nullptr;
  const float* bias = nullptr;
  Ref y;
  float* mean = nullptr;
  float* rstd = nullptr;
  std::int64_t rows = 0, width = 0;
  float epsilon = 1e-5F;
};
// dx[n,C] = (+ residual[n,C] if given) gradient through the norm. dy f32 or bf16. When dgain_part
// is given: dgain_part[C] (and dbias_part[C] if given) are OVERWRITTEN with this call's column sums
// (fixed 256-row blocks); the weight gradient adds them later, in microbatch order ([Note: norm
// parts]).
struct NormBackwardArgs {
  ConstRef x;
  ConstRef dy;
  const float* gain = nullptr;
  const float* mean = nullptr;  // null: RMSNorm
  const float* rstd = nullptr;
  ConstRef residual;  // data null: none
  Ref dx;
  float* dgain_part = nullptr;
  float* dbias_part = nullptr;
  std::int64_t rows = 0, width = 0;
};

enum class Activation : std::uint8_t { kGeluExact, kGeluTanh, kSwiglu };
// y[n,C] = act(x). kSwiglu: x[n,2C] = gate|up, y = silu(gate)*up. x f32, y f32 or bf16.
struct ActivationForwardArgs {
  Activation kind = Activation::kGeluTanh;
  const float* x = nullptr;
  Ref y;
  std::int64_t rows = 0, width = 0;
};
// dx (f32 or bf16; [n,C], kSwiglu [n,2C]) from x and dy (f32).
struct ActivationBackwardArgs {
  Activation kind = Activation::kGeluTanh;
  const float* x = nullptr;
  const float* dy = nullptr;
  Ref dx;
  std::int64_t rows = 0, width = 0;
};

// Rotates the halves (i, i+D/2), as Llama does, of the first `heads` heads of each row of
// x[n, stride] in place. cosine, sine: [T, D/2]. inverse = backward. x f32.
struct RopeArgs {
  float* x = nullptr;
  const float* cosine = nullptr;
  const float* sine = nullptr;
  std::int64_t batch = 0, positions = 0, heads = 0, head_width = 0, stride = 0;
  bool inverse = false;
};
// Fills cosine, sine [T, D/2] for base (angle = t * base^(-2i/D)), without libm. Host-visible
// result is ready when the stream reaches it.
struct RopeTableArgs {
  float* cosine = nullptr;
  float* sine = nullptr;
  std::int64_t positions = 0, head_width = 0;
  double base = 10000.0;
};

// Causal attention with grouped heads on packed rows qkv[n, (H+2G)*D] = q heads | k heads | v heads
// (f32). o[n, H*D] f32 or bf16; lse[B,H,T] f32 log-sum-exp of the scaled scores. Never stores T x
// T.
struct AttentionForwardArgs {
  const float* qkv = nullptr;
  Ref o;
  float* lse = nullptr;
  std::int64_t batch = 0, positions = 0, heads = 0, kv_heads = 0, head_width = 0;
  float scale = 1.0F;
};
// dqkv (f32 or bf16, same packing, overwritten) from do[n, H*D] f32. `workspace` is at least
// attention_workspace_bytes(...) of device memory.
struct AttentionBackwardArgs {
  const float* qkv = nullptr;
  ConstRef o;
  const float* lse = nullptr;
  const float* d_o = nullptr;
  Ref dqkv;
  void* workspace = nullptr;
  std::int64_t batch = 0, positions = 0, heads = 0, kv_heads = 0, head_width = 0;
  float scale = 1.0F;
};

// y = x + dropout(branch). x f32 or bf16, branch f32, y f32 or bf16. rows = B*T.
struct ResidualForwardArgs {
  ConstRef x;
  const float* branch = nullptr;
  Ref y;
  std::int64_t rows = 0, width = 0, positions = 0;
  DropoutSite dropout;
};
// dx = mask(dy)*1/(1-p): the gradient of the branch (or of the embedding's output). dy f32 or bf16,
// dx f32 or bf16. With probability 0 it is a conversion.
struct DropoutBackwardArgs {
  ConstRef dy;
  Ref dx;
  std::int64_t rows = 0, width = 0, positions = 0;
  DropoutSite dropout;
};

// loss_sum[0] (f64, overwritten) = sum over rows with target >= 0 of -log softmax(logits)[target],
// summed in fixed 256-row blocks; lse[n]. logits f32 [n,V]. Rows with target -1 add exactly 0.
struct CrossEntropyForwardArgs {
  const float* logits = nullptr;
  const std::int32_t* targets = nullptr;
  float* lse = nullptr;
  double* loss_sum = nullptr;
  std::int64_t rows = 0, vocabulary = 0;
};
// dlogits (f32 or bf16) = (softmax - onehot) * scale, exactly 0 for ignored rows.
struct CrossEntropyBackwardArgs {
  const float* logits = nullptr;
  const std::int32_t* targets = nullptr;
  const float* lse = nullptr;
  Ref dlogits;
  float scale = 1.0F;
  std::int64_t rows = 0, vocabulary = 0;
};

// AdamW (Loshchilov & Hutter 2019), decoupled decay: g = grad*grad_scale; m,v; w -=
// lr*(mhat/(sqrt(vhat)+eps)
// + decay*w). bias corrections are computed once by the scheduler (1-beta^t). mirror: bf16 copy or
// null.
struct AdamwArgs {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
  void* mirror_bf16 = nullptr;
  std::int64_t count = 0;
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float bias_correction1 = 1, bias_correction2 = 1, gradient_scale = 1;
};
// SGD: g = grad*grad_scale + decay*w; momentum 0: w -= lr*g; else buf = momentum*buf + g; w -=
// lr*buf.
struct SgdArgs {
  float* weight = nullptr;
  const float* gradient = nullptr;
  float* momentum_buffer = nullptr;  // null when momentum == 0
  void* mirror_bf16 = nullptr;
  std::int64_t count = 0;
  float learning_rate = 0, momentum = 0, weight_decay = 0, gradient_scale = 1;
};

// result[0] (f64, overwritten) = sum of x^2: f64 sums over fixed blocks of 65,536 elements (16
// virtual lanes inside a block), folded in block order.
struct SumSquaresArgs {
  const float* x = nullptr;
  std::int64_t count = 0;
  double* result = nullptr;
};
// result[0] = index of the first non-finite element, or -1.
struct FindNonFiniteArgs {
  ConstRef x;
  std::int64_t count = 0;
  std::int64_t* result = nullptr;
};
// x[i] = mean + deviation * normal(Philox(key, i/4, sample, site)), Box-Muller with our own log,
// sin, cos.
struct FillNormalArgs {
  float* x = nullptr;
  std::int64_t count = 0;
  float mean = 0, deviation = 1;
  PhiloxKey key;
  std::uint32_t sample = 0;
  std::uint32_t site = 0;
};

class Operators {
 public:
  virtual ~Operators() = default;

  virtual void matmul(Stream& stream, const MatmulArgs& args) = 0;
  virtual void column_sum(Stream& stream, const ColumnSumArgs& args) = 0;
  virtual void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) = 0;
  virtual void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) = 0;
  virtual void norm_forward(Stream& stream, const NormForwardArgs& args) = 0;
  virtual void norm_backward(Stream& stream, const NormBackwardArgs& args) = 0;
  virtual void activation_forward(Stream& stream, const ActivationForwardArgs& args) = 0;
  virtual void activation_backward(Stream& stream, const ActivationBackwardArgs& args) = 0;
  virtual void rope(Stream& stream, const RopeArgs& args) = 0;
  virtual void rope_table(Stream& stream, const RopeTableArgs& args) = 0;
  virtual void attention_forward(Stream& stream, const AttentionForwardArgs& args) = 0;
  virtual void attention_backward(Stream& stream, const AttentionBackwardArgs& args) = 0;
  virtual void residual_forward(Stream& stream, const ResidualForwardArgs& args) = 0;
  virtual void dropout_backward(Stream& stream, const DropoutBackwardArgs& args) = 0;
  virtual void cross_entropy_forward(Stream& stream, const CrossEntropyForwardArgs& args) = 0;
  virtual void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) = 0;
  virtual void adamw(Stream& stream, const AdamwArgs& args) = 0;
  virtual void sgd(Stream& stream, const SgdArgs& args) = 0;
  virtual void sum_squares(Stream& stream, const SumSquaresArgs& args) = 0;
  virtual void find_non_finite(Stream& stream, const FindNonFiniteArgs& args) = 0;
  virtual void fill_normal(Stream& stream, const FillNormalArgs& args) = 0;
  // to[i] = from[i], converting between f32 and bf16 (round to nearest even).
  virtual void convert(Stream& stream, ConstRef from, Ref to, std::int64_t count) = 0;
  // y[i] = a[i] + b[i], f32; y may be a or b.
  virtual void add(Stream& stream, const float* a, const float* b, float* y,
                   std::int64_t count) = 0;
  virtual void fill(Stream& stream, float* x, float value, std::int64_t count) = 0;
  virtual void copy(Stream& stream, const void* from, void* to, std::int64_t bytes) = 0;
  // For layers that only take time (tests, simulator checks): holds the stream for that long.
  virtual void sleep(Stream& stream, std::int64_t nanoseconds) = 0;

  [[nodiscard]] virtual std::int64_t attention_workspace_bytes(std::int64_t batch,
                                                               std::int64_t positions,
                                                               std::int64_t heads,
                                                               std::int64_t kv_heads,
                                                               std::int64_t head_width) const = 0;
};

}  // namespace headrace::kernels
