#include "kernels/cpu/cpu_operators.hpp"

#include "kernels/cpu/basic_operators.hpp"
#include "kernels/cpu/cpu_stream.hpp"
#include "kernels/cpu/nn_operators.hpp"
#include "kernels/cpu/onednn_matmul.hpp"

namespace headrace::kernels {
namespace {

template <typename Args>
void enqueue(Stream& stream, void (*function)(CpuContext&, const Args&), const Args& args) {
  static_cast<CpuStream&>(stream).enqueue(Task(function, args));
}

class CpuOperators final : public Operators {
 public:
  void matmul(Stream& stream, const MatmulArgs& args) override {
    enqueue(stream, &kernels::matmul, args);
  }
  void column_sum(Stream& stream, const ColumnSumArgs& args) override {
    enqueue(stream, &kernels::column_sum, args);
  }
  void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args) override {
    enqueue(stream, &kernels::embedding_forward, args);
  }
  void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) override {
    enqueue(stream, &kernels::embedding_backward, args);
  }
  void norm_forward(Stream& stream, const NormForwardArgs& args) override {
    enqueue(stream, &kernels::norm_forward, args);
  }
  void norm_backward(Stream& stream, const NormBackwardArgs& args) override {
    enqueue(stream, &kernels::norm_backward, args);
  }
  void activation_forward(Stream& stream, const ActivationForwardArgs& args) override {
    enqueue(stream, &kernels::activation_forward, args);
  }
  void activation_backward(Stream& stream, const ActivationBackwardArgs& args) override {
    enqueue(stream, &kernels::activation_backward, args);
  }
  void rope(Stream& stream, const RopeArgs& args) override {
    enqueue(stream, &kernels::rope, args);
  }
  void rope_table(Stream& stream, const RopeTableArgs& args) override {
    enqueue(stream, &kernels::rope_table, args);
  }
  void attention_forward(Stream& stream, const AttentionForwardArgs& args) override {
    enqueue(stream, &kernels::attention_forward, args);
  }
  void attention_backward(Stream& stream, const AttentionBackwardArgs& args) override {
    enqueue(stream, &kernels::attention_backward, args);
  }
  void residual_forward(Stream& stream, const ResidualForwardArgs& args) override {
    enqueue(stream, &kernels::residual_forward, args);
  }
  void dropout_backward(Stream& stream, const DropoutBackwardArgs& args) override {
    enqueue(stream, &kernels::dropout_backward, args);
  }
  void cross_entropy_forward(Stream& stream, const CrossEntropyForwardArgs& args) override {
    enqueue(stream, &kernels::cross_entropy_forward, args);
  }
  void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& args) override {
    enqueue(stream, &kernels::cross_entropy_backward, args);
  }
  void adamw(Stream& stream, const AdamwArgs& args) override {
    enqueue(stream, &kernels::adamw, args);
  }
  void sgd(Stream& stream, const SgdArgs& args) override { enqueue(stream, &kernels::sgd, args); }
  void sum_squares(Stream& stream, const SumSquaresArgs& args) override {
    enqueue(stream, &kernels::sum_squares, args);
  }
  void find_non_finite(Stream& stream, const FindNonFiniteArgs& args) override {
    enqueue(stream, &kernels::find_non_finite, args);
  }
  void fill_normal(Stream& stream, const FillNormalArgs& args) override {
    enqueue(stream, &kernels::fill_normal, args);
  }
  void convert(Stream& stream, ConstRef from, Ref to, std::int64_t count) override {
    enqueue(stream, &kernels::convert, ConvertArgs{from, to, count});
  }
  void add(Stream& stream, const float* a, const float* b, float* y, std::int64_t count) override {
    enqueue(stream, &kernels::add, AddArgs{a, b, y, count});
  }
  void fill(Stream& stream, float* x, float value, std::int64_t count) override {
    enqueue(stream, &kernels::fill, FillArgs{x, value, count});
  }
  void copy(Stream& stream, const void* from, void* to, std::int64_t bytes) override {
    enqueue(stream, &kernels::copy, CopyArgs{from, to, bytes});
  }
  void sleep(Stream& stream, std::int64_t nanoseconds) override {
    enqueue(stream, &kernels::sleep, SleepArgs{nanoseconds});
  }
  [[nodiscard]] std::int64_t attention_workspace_bytes(std::int64_t batch, std::int64_t positions,
                                                       std::int64_t heads, std::int64_t kv_heads,
                                                       std::int64_t head_width) const override {
    return kernels::attention_workspace_bytes(batch, positions, heads, kv_heads, head_width);
  }
};

}  // namespace

std::unique_ptr<Operators> make_cpu_operators() { return std::make_unique<CpuOperators>(); }

}  // namespace headrace::kernels
