// The operators of the CPU device against PyTorch, forward and backward.
#include "kernels/operators.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "tests/parity/golden.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>

namespace headrace::kernels::parity {
namespace {

using Floats = std::vector<float>;

struct Machine {
  std::unique_ptr<Device> device = make_cpu_device({});
  std::unique_ptr<Stream> stream = device->make_stream();
  Operators& operators = device->operators();

  void finish() const {
    stream->synchronize();
    REQUIRE_MESSAGE(!stream->failed(), stream->failure().message());
  }
};

ConstRef in(const Floats& values) { return {values.data(), DType::kF32}; }
Ref out(Floats& values) { return {values.data(), DType::kF32}; }

void check_norm(const std::string& name, bool rms) {
  const Golden golden(name);
  const Machine machine;
  const Floats& x = golden.floats("x");
  const std::int64_t rows = golden.size("x", 0);
  const std::int64_t width = golden.size("x", 1);
  Floats y(x.size());
  Floats dx(x.size());
  Floats mean(static_cast<std::size_t>(rows));
  Floats rstd(mean.size());
  Floats dgain(static_cast<std::size_t>(width));
  Floats dbias(dgain.size());
  NormForwardArgs forward;
  forward.x = in(x);
  forward.gain = golden.floats("gain").data();
  forward.bias = rms ? nullptr : golden.floats("bias").data();
  forward.y = out(y);
  forward.mean = rms ? nullptr : mean.data();
  forward.rstd = rstd.data();
  forward.rows = rows;
  forward.width = width;
  machine.operators.norm_forward(*machine.stream, forward);
  NormBackwardArgs backward;
  backward.x = in(x);
  backward.dy = in(golden.floats("dy"));
  backward.gain = forward.gain;
  backward.mean = forward.mean;
  backward.rstd = rstd.data();
  backward.dx = out(dx);
  backward.dgain_part = dgain.data();
  backward.dbias_part = rms ? nullptr : dbias.data();
  backward.rows = rows;
  backward.width = width;
  machine.operators.norm_backward(*machine.stream, backward);
  machine.finish();
  golden.compare("y", y);
  golden.compare("dx", dx);
  golden.compare("dgain", dgain);
  if (!rms) golden.compare("dbias", dbias);
}

TEST_CASE("parity: layernorm") { check_norm("layernorm", false); }
TEST_CASE("parity: rmsnorm") { check_norm("rmsnorm", true); }

void check_activation(const std::string& name, Activation kind) {
  const Golden golden(name);
  const Machine machine;
  const Floats& x = golden.floats("x");
  const Floats& dy = golden.floats("dy");
  Floats y(dy.size());
  Floats dx(x.size());
  const std::int64_t rows = golden.size("dy", 0);
  const std::int64_t width = golden.size("dy", 1);
  machine.operators.activation_forward(*machine.stream, {kind, x.data(), out(y), rows, width});
  machine.operators.activation_backward(*machine.stream,
                                        {kind, x.data(), dy.data(), out(dx), rows, width});
  machine.finish();
  golden.compare("y", y);
  golden.compare("dx", dx);
}

TEST_CASE("parity: exact gelu") { check_activation("gelu_exact", Activation::kGeluExact); }
TEST_CASE("parity: tanh gelu") { check_activation("gelu_tanh", Activation::kGeluTanh); }
TEST_CASE("parity: swiglu") { check_activation("swiglu", Activation::kSwiglu); }

TEST_CASE("parity: rope") {
  const Golden golden("rope");
  const Machine machine;
  Floats cosine(golden.floats("cosine").size());
  Floats sine(cosine.size());
  Floats y = golden.floats("x");
  Floats dx = golden.floats("dy");
  RopeArgs args;
  args.batch = golden.size("x", 0);
  args.positions = golden.size("x", 1);
  args.heads = golden.size("x", 2);
  args.head_width = golden.size("x", 3);
  args.stride = args.heads * args.head_width;
  args.cosine = cosine.data();
  args.sine = sine.data();
  machine.operators.rope_table(
      *machine.stream, {cosine.data(), sine.data(), args.positions, args.head_width, 10000.0});
  args.x = y.data();
  machine.operators.rope(*machine.stream, args);
  args.x = dx.data();
  args.inverse = true;
  machine.operators.rope(*machine.stream, args);
  machine.finish();
  golden.compare("cosine", cosine);
  golden.compare("sine", sine);
  golden.compare("y", y);
  golden.compare("dx", dx);
}

void check_attention(const std::string& name) {
  const Golden golden(name);
  const Machine machine;
  const Floats& qkv = golden.floats("qkv");
  const Floats& d_o = golden.floats("d_o");
  Floats o(d_o.size());
  Floats lse(golden.floats("lse").size());
  Floats dqkv(qkv.size());
  AttentionForwardArgs forward;
  forward.qkv = qkv.data();
  forward.o = out(o);
  forward.lse = lse.data();
  forward.batch = golden.size("d_o", 0);
  forward.positions = golden.size("d_o", 1);
  forward.heads = golden.size("d_o", 2);
  forward.head_width = golden.size("d_o", 3);
  forward.kv_heads = (golden.size("qkv", 2) - forward.heads) / 2;
  forward.scale = 1.0F / std::sqrt(static_cast<float>(forward.head_width));
  machine.operators.attention_forward(*machine.stream, forward);
  const Buffer workspace =
      machine.device->allocate(static_cast<std::size_t>(machine.operators.attention_workspace_bytes(
          forward.batch, forward.positions, forward.heads, forward.kv_heads, forward.head_width)));
  AttentionBackwardArgs backward;
  backward.qkv = qkv.data();
  backward.o = out(o);
  backward.lse = lse.data();
  backward.d_o = d_o.data();
  backward.dqkv = out(dqkv);
  backward.workspace = workspace.data();
  backward.batch = forward.batch;
  backward.positions = forward.positions;
  backward.heads = forward.heads;
  backward.kv_heads = forward.kv_heads;
  backward.head_width = forward.head_width;
  backward.scale = forward.scale;
  machine.operators.attention_backward(*machine.stream, backward);
  machine.finish();
  golden.compare("o", o);
  golden.compare("lse", lse);
  golden.compare("dqkv", dqkv);
}

TEST_CASE("parity: attention with grouped heads in one tile") {
  check_attention("attention_small");
}
TEST_CASE("parity: attention over several tiles") { check_attention("attention_tiles"); }

TEST_CASE("parity: embedding") {
  const Golden golden("embedding");
  const Machine machine;
  const auto& ids = golden.integers("ids");
  Floats y(golden.floats("dy").size());
  Floats dtoken(golden.floats("token").size());
  Floats dposition(golden.floats("position").size());
  const std::int64_t batch = golden.size("ids", 0);
  const std::int64_t positions = golden.size("ids", 1);
  const std::int64_t width = golden.size("token", 1);
  machine.operators.embedding_forward(*machine.stream, {ids.data(),
                                                        golden.floats("token").data(),
                                                        golden.floats("position").data(),
                                                        out(y),
                                                        batch,
                                                        positions,
                                                        width,
                                                        {}});
  machine.operators.embedding_backward(
      *machine.stream, {ids.data(), in(golden.floats("dy")), dtoken.data(), dposition.data(), batch,
                        positions, width, golden.size("token", 0)});
  machine.finish();
  golden.compare("y", y);
  golden.compare("dtoken", dtoken);
  golden.compare("dposition", dposition);
}

TEST_CASE("parity: cross-entropy with ignored positions") {
  const Golden golden("cross_entropy");
  const Machine machine;
  const Floats& logits = golden.floats("logits");
  const auto& targets = golden.integers("targets");
  Floats lse(targets.size());
  Floats dlogits(logits.size());
  double loss = 0;
  const std::int64_t rows = golden.size("logits", 0);
  const std::int64_t vocabulary = golden.size("logits", 1);
  machine.operators.cross_entropy_forward(
      *machine.stream, {logits.data(), targets.data(), lse.data(), &loss, rows, vocabulary});
  machine.operators.cross_entropy_backward(
      *machine.stream,
      {logits.data(), targets.data(), lse.data(), out(dlogits), 0.1F, rows, vocabulary});
  machine.finish();
  golden.compare("loss", {static_cast<float>(loss)});
  golden.compare("lse", lse);
  golden.compare("dlogits", dlogits);
}

// y = x W^T + b, dx = dy W, dW = dy^T x, db = the column sums of dy.
TEST_CASE("parity: linear layer from matmul and column sums") {
  const Golden golden("linear");
  const Machine machine;
  const std::int64_t rows = golden.size("x", 0);
  const std::int64_t width = golden.size("x", 1);
  const std::int64_t outputs = golden.size("weight", 0);
  const Floats& dy = golden.floats("dy");
  Floats y(dy.size());
  Floats dx(golden.floats("x").size());
  Floats dweight(golden.floats("weight").size());
  Floats dbias(static_cast<std::size_t>(outputs));
  machine.operators.matmul(
      *machine.stream, {in(golden.floats("x")), in(golden.floats("weight")), out(y), rows, outputs,
                        width, false, true, false, golden.floats("bias").data()});
  machine.operators.matmul(*machine.stream, {in(dy), in(golden.floats("weight")), out(dx), rows,
                                             width, outputs, false, false, false, nullptr});
  machine.operators.matmul(*machine.stream, {in(dy), in(golden.floats("x")), out(dweight), outputs,
                                             width, rows, true, false, true, nullptr});
  machine.operators.column_sum(*machine.stream, {in(dy), dbias.data(), rows, outputs});
  machine.finish();
  golden.compare("y", y);
  golden.compare("dx", dx);
  golden.compare("dweight", dweight);
  golden.compare("dbias", dbias);
}

TEST_CASE("parity: five steps of adamw") {
  const Golden golden("adamw");
  const Machine machine;
  Floats weight = golden.floats("weight");
  Floats first(weight.size());
  Floats second(weight.size());
  Floats steps;
  AdamwArgs args;
  args.weight = weight.data();
  args.first_moment = first.data();
  args.second_moment = second.data();
  args.count = static_cast<std::int64_t>(weight.size());
  args.learning_rate = 1e-2F;
  args.beta1 = 0.9F;
  args.beta2 = 0.95F;
  args.epsilon = 1e-8F;
  args.weight_decay = 0.1F;
  double power1 = 1;
  double power2 = 1;
  for (std::int64_t step = 0; step < golden.size("gradients", 0); ++step) {
    power1 *= 0.9;
    power2 *= 0.95;
    args.bias_correction1 = static_cast<float>(1 - power1);
    args.bias_correction2 = static_cast<float>(1 - power2);
    args.gradient = golden.floats("gradients").data() + step * args.count;
    machine.operators.adamw(*machine.stream, args);
    machine.finish();
    steps.insert(steps.end(), weight.begin(), weight.end());
  }
  golden.compare("weights", steps);
  golden.compare("exp_avg", first);
  golden.compare("exp_avg_sq", second);
}

TEST_CASE("parity: five steps of sgd with momentum") {
  const Golden golden("sgd");
  const Machine machine;
  Floats weight = golden.floats("weight");
  Floats momentum(weight.size());
  Floats steps;
  SgdArgs args;
  args.weight = weight.data();
  args.momentum_buffer = momentum.data();
  args.count = static_cast<std::int64_t>(weight.size());
  args.learning_rate = 1e-2F;
  args.momentum = 0.9F;
  args.weight_decay = 0.01F;
  for (std::int64_t step = 0; step < golden.size("gradients", 0); ++step) {
    args.gradient = golden.floats("gradients").data() + step * args.count;
    machine.operators.sgd(*machine.stream, args);
    machine.finish();
    steps.insert(steps.end(), weight.begin(), weight.end());
  }
  golden.compare("weights", steps);
  golden.compare("momentum_buffer", momentum);
}

}  // namespace
}  // namespace headrace::kernels::parity
