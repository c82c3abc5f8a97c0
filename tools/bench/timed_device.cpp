#include "tools/bench/timed_device.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "runtime/base/clock.hpp"
#include "tools/bench/allocation_counter.hpp"

#include <string_view>

namespace headrace::bench {
namespace {

using namespace kernels;

const char* matmul_class(const MatmulArgs& args) {
  if (args.transpose_a) return "matmul weight gradient";
  return args.transpose_b ? "matmul forward" : "matmul input gradient";
}

class TimedOperators final : public Operators {
 public:
  TimedOperators(Operators& inner, OperatorTimes& times) : inner_(inner), times_(times) {}

  void matmul(Stream& stream, const MatmulArgs& a) override {
    const GemmShape shape{a.rows,        a.cols,       a.inner,           a.transpose_a,
                          a.transpose_b, a.accumulate, a.bias != nullptr, a.a.type,
                          a.c.type};
    ++times_.products[shape];
    times_.gemm_flops += shape.flops();
    time(matmul_class(a), [&] { inner_.matmul(stream, a); });
  }
  void column_sum(Stream& stream, const ColumnSumArgs& a) override {
    time("column sum", [&] { inner_.column_sum(stream, a); });
  }
  void embedding_forward(Stream& stream, const EmbeddingForwardArgs& a) override {
    time("embedding", [&] { inner_.embedding_forward(stream, a); });
  }
  void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& a) override {
    time("embedding", [&] { inner_.embedding_backward(stream, a); });
  }
  void norm_forward(Stream& stream, const NormForwardArgs& a) override {
    time("norm forward", [&] { inner_.norm_forward(stream, a); });
  }
  void norm_backward(Stream& stream, const NormBackwardArgs& a) override {
    time("norm backward", [&] { inner_.norm_backward(stream, a); });
  }
  void activation_forward(Stream& stream, const ActivationForwardArgs& a) override {
    time("activation forward", [&] { inner_.activation_forward(stream, a); });
  }
  void activation_backward(Stream& stream, const ActivationBackwardArgs& a) override {
    time("activation backward", [&] { inner_.activation_backward(stream, a); });
  }
  void rope(Stream& stream, const RopeArgs& a) override {
    time("rope", [&] { inner_.rope(stream, a); });
  }
  void rope_table(Stream& stream, const RopeTableArgs& a) override {
    time("rope", [&] { inner_.rope_table(stream, a); });
  }
  void attention_forward(Stream& stream, const AttentionForwardArgs& a) override {
    times_.attention_flops += 2 * half_product(a.batch, a.heads, a.positions, a.head_width);
    time("attention forward", [&] { inner_.attention_forward(stream, a); });
  }
  void attention_backward(Stream& stream, const AttentionBackwardArgs& a) override {
    times_.attention_flops += 4 * half_product(a.batch, a.heads, a.positions, a.head_width);
    time("attention backward", [&] { inner_.attention_backward(stream, a); });
  }
  void residual_forward(Stream& stream, const ResidualForwardArgs& a) override {
    time("residual", [&] { inner_.residual_forward(stream, a); });
  }
  void dropout_backward(Stream& stream, const DropoutBackwardArgs& a) override {
    time("dropout backward", [&] { inner_.dropout_backward(stream, a); });
  }
  void cross_entropy_forward(Stream& stream, const CrossEntropyForwardArgs& a) override {
    time("cross-entropy", [&] { inner_.cross_entropy_forward(stream, a); });
  }
  void cross_entropy_backward(Stream& stream, const CrossEntropyBackwardArgs& a) override {
    time("cross-entropy", [&] { inner_.cross_entropy_backward(stream, a); });
  }
  void adamw(Stream& stream, const AdamwArgs& a) override {
    time("adamw", [&] { inner_.adamw(stream, a); });
  }
  void sgd(Stream& stream, const SgdArgs& a) override {
    time("sgd", [&] { inner_.sgd(stream, a); });
  }
  void sum_squares(Stream& stream, const SumSquaresArgs& a) override {
    time("sum of squares", [&] { inner_.sum_squares(stream, a); });
  }
  void find_non_finite(Stream& stream, const FindNonFiniteArgs& a) override {
    time("find non-finite", [&] { inner_.find_non_finite(stream, a); });
  }
  void fill_normal(Stream& stream, const FillNormalArgs& a) override {
    time("fill", [&] { inner_.fill_normal(stream, a); });
  }
  void convert(Stream& stream, ConstRef from, Ref to, std::int64_t count) override {
    time("convert", [&] { inner_.convert(stream, from, to, count); });
  }
  void add(Stream& stream, const float* a, const float* b, float* y, std::int64_t count) override {
    time("add", [&] { inner_.add(stream, a, b, y, count); });
  }
  void fill(Stream& stream, float* x, float value, std::int64_t count) override {
    time("fill", [&] { inner_.fill(stream, x, value, count); });
  }
  void copy(Stream& stream, const void* from, void* to, std::int64_t bytes) override {
    time("copy", [&] { inner_.copy(stream, from, to, bytes); });
  }
  void sleep(Stream& stream, std::int64_t nanoseconds) override {
    time("sleep", [&] { inner_.sleep(stream, nanoseconds); });
  }
  [[nodiscard]] std::int64_t attention_workspace_bytes(std::int64_t batch, std::int64_t positions,
                                                       std::int64_t heads, std::int64_t kv_heads,
                                                       std::int64_t head_width) const override {
    return inner_.attention_workspace_bytes(batch, positions, heads, kv_heads, head_width);
  }

 private:
  // One T x T x D product per head, of which causality leaves half.
  static double half_product(std::int64_t batch, std::int64_t heads, std::int64_t positions,
                             std::int64_t head_width) {
    return static_cast<double>(batch * heads) * static_cast<double>(positions * positions) *
           static_cast<double>(head_width);
  }

  template <typename Call>
  void time(const char* name, Call&& call) {
    const auto known = times_.costs.find(std::string_view(name));
    OperatorCost& cost = known != times_.costs.end() ? known->second : times_.costs[name];
    const std::int64_t allocated = allocations_counted();
    const std::int64_t begin = monotonic_now_ns();
    call();
    cost.seconds += static_cast<double>(monotonic_now_ns() - begin) * 1e-9;
    cost.allocations += allocations_counted() - allocated;
    ++cost.calls;
  }

  Operators& inner_;
  OperatorTimes& times_;
};

class TimedDevice final : public Device {
 public:
  explicit TimedDevice(OperatorTimes& times)
      : inner_(make_cpu_device({})), operators_(inner_->operators(), times) {}

  [[nodiscard]] Buffer allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return inner_->make_stream(); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return inner_->make_event(); }
  [[nodiscard]] Operators& operators() override { return operators_; }
  [[nodiscard]] std::string numerics_id() const override { return inner_->numerics_id(); }
  [[nodiscard]] bool supports_bf16() const override { return inner_->supports_bf16(); }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    inner_->copy_to_host(host, device, bytes);
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_from_host(device, host, bytes);
  }

 private:
  std::unique_ptr<Device> inner_;
  TimedOperators operators_;
};

}  // namespace

std::unique_ptr<Device> make_timed_device(OperatorTimes& times) {
  return std::make_unique<TimedDevice>(times);
}

}  // namespace headrace::bench
