// A CPU device whose operators do nothing but count the calls.
//
// What it is for: what a stage itself costs, apart from its kernels. What it does not do: compute.
// Thread rule: one thread.
#pragma once

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/operators.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace headrace::stages::test {

class NullOperators : public kernels::Operators {
 public:
  using Stream = kernels::Stream;
  void matmul(Stream&, const kernels::MatmulArgs&) override { ++calls; }
  void column_sum(Stream&, const kernels::ColumnSumArgs&) override { ++calls; }
  void embedding_forward(Stream&, const kernels::EmbeddingForwardArgs&) override { ++calls; }
  void embedding_backward(Stream&, const kernels::EmbeddingBackwardArgs&) override { ++calls; }
  void norm_forward(Stream&, const kernels::NormForwardArgs&) override { ++calls; }
  void norm_backward(Stream&, const kernels::NormBackwardArgs&) override { ++calls; }
  void activation_forward(Stream&, const kernels::ActivationForwardArgs&) override { ++calls; }
  void activation_backward(Stream&, const kernels::ActivationBackwardArgs&) override { ++calls; }
  void rope(Stream&, const kernels::RopeArgs&) override { ++calls; }
  void rope_table(Stream&, const kernels::RopeTableArgs&) override { ++calls; }
  void attention_forward(Stream&, const kernels::AttentionForwardArgs&) override {
    ++calls;
    ++attention_forwards;
  }
  void attention_backward(Stream&, const kernels::AttentionBackwardArgs&) override { ++calls; }
  void residual_forward(Stream&, const kernels::ResidualForwardArgs&) override { ++calls; }
  void dropout_backward(Stream&, const kernels::DropoutBackwardArgs&) override { ++calls; }
  void cross_entropy_forward(Stream&, const kernels::CrossEntropyForwardArgs&) override { ++calls; }
  void cross_entropy_backward(Stream&, const kernels::CrossEntropyBackwardArgs&) override {
    ++calls;
  }
  void adamw(Stream&, const kernels::AdamwArgs&) override { ++calls; }
  void sgd(Stream&, const kernels::SgdArgs&) override { ++calls; }
  void sum_squares(Stream&, const kernels::SumSquaresArgs&) override { ++calls; }
  void find_non_finite(Stream&, const kernels::FindNonFiniteArgs&) override { ++calls; }
  void fill_normal(Stream&, const kernels::FillNormalArgs&) override { ++calls; }
  void convert(Stream&, kernels::ConstRef, kernels::Ref, std::int64_t) override { ++calls; }
  void add(Stream&, const float*, const float*, float*, std::int64_t) override { ++calls; }
  void fill(Stream&, float*, float, std::int64_t) override { ++calls; }
  void copy(Stream&, const void*, void*, std::int64_t) override { ++calls; }
  void sleep(Stream&, std::int64_t) override { ++calls; }
  std::int64_t attention_workspace_bytes(std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                                         std::int64_t) const override {
    return 0;
  }

  std::int64_t calls = 0;
  std::int64_t attention_forwards = 0;
};

class NullDevice : public kernels::Device {
 public:
  kernels::Buffer allocate(std::size_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<kernels::Stream> make_stream() override { return cpu_->make_stream(); }
  std::unique_ptr<kernels::Event> make_event() override { return cpu_->make_event(); }
  kernels::Operators& operators() override { return null_operators; }
  std::string numerics_id() const override { return "null"; }
  bool supports_bf16() const override { return bf16; }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    cpu_->copy_to_host(host, device, bytes);
  }
  void copy_from_host(void* device, const void* host, std::size_t bytes) override {
    cpu_->copy_from_host(device, host, bytes);
  }

  NullOperators null_operators;
  bool bf16 = true;

 private:
  std::unique_ptr<kernels::Device> cpu_ = kernels::make_cpu_device({});
};

}  // namespace headrace::stages::test
