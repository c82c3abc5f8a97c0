// Counts every global operator new of the process while it is armed, oneDNN's included.
#include "tests/kernels/cpu_test_device.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<bool> armed{false};
std::atomic<int> allocations{0};

// Not inlined: the compiler would see malloc behind new and warn that free does not match it.
[[gnu::noinline]] void* allocate(std::size_t bytes, std::size_t alignment) {
  if (armed.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  const std::size_t rounded = (bytes + alignment) / alignment * alignment;
  void* p = std::aligned_alloc(alignment, rounded);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

[[gnu::noinline]] void release(void* p) noexcept { std::free(p); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 16); }
void* operator new[](std::size_t bytes) { return allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* p) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::align_val_t) noexcept { release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { release(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { release(p); }

using namespace headrace;
using namespace headrace::kernels;
using namespace headrace::kernels::test;

namespace {

constexpr std::int64_t kRows = 600;
constexpr std::int64_t kCols = 96;

// One call of every basic operator on fixed buffers.
class Round {
 public:
  void enqueue(Operators& operators, Stream& stream, Event& event) {
    const auto count = static_cast<std::int64_t>(x_.size());
    operators.fill(stream, x_.data(), 1.5F, count);
    operators.fill_normal(stream, FillNormalArgs{y_.data(), count, 0, 1, {1, 2}, 3, 4});
    operators.add(stream, x_.data(), y_.data(), y_.data(), count);
    operators.copy(stream, x_.data(), z_.data(), count * 4);
    operators.convert(stream, {y_.data(), DType::kF32}, {narrow_.data(), DType::kBf16}, count);
    operators.column_sum(stream, ColumnSumArgs{{y_.data(), DType::kF32}, z_.data(), kRows, kCols});
    operators.sum_squares(stream, SumSquaresArgs{y_.data(), count, &squares_});
    operators.find_non_finite(stream, FindNonFiniteArgs{{y_.data(), DType::kF32}, count, &bad_});
    AdamwArgs adamw;
    adamw.weight = x_.data();
    adamw.gradient = y_.data();
    adamw.first_moment = z_.data();
    adamw.second_moment = v_.data();
    adamw.mirror_bf16 = narrow_.data();
    adamw.count = count;
    operators.adamw(stream, adamw);
    operators.sgd(stream, SgdArgs{x_.data(), y_.data(), z_.data(), narrow_.data(), count, 0.1F});
    operators.sleep(stream, 1000);
    stream.record(event);
    stream.wait(event);
  }

 private:
  static constexpr auto kSize = static_cast<std::size_t>(kRows * kCols);
  std::vector<float> x_ = std::vector<float>(kSize);
  std::vector<float> y_ = x_, z_ = x_, v_ = x_;
  std::vector<std::uint16_t> narrow_ = std::vector<std::uint16_t>(kSize);
  double squares_ = 0;
  std::int64_t bad_ = 0;
};

// One call of every operator that allocates scratch, and some that do not, of the layers.
class LayerRound {
 public:
  void enqueue(Operators& operators, Stream& stream) {
    const DropoutSite dropout{{1, 2}, 3, 4, 0.1F};
    operators.norm_forward(stream, {in(x_), w_.data(), w_.data(), out(y_), mean_.data(),
                                    rstd_.data(), kTokens, kWidth, 1e-5F});
    NormBackwardArgs norm;
    norm.x = in(x_);
    norm.dy = in(y_);
    norm.gain = w_.data();
    norm.mean = mean_.data();
    norm.rstd = rstd_.data();
    norm.dx = out(z_);
    norm.dgain_part = part_.data();
    norm.rows = kTokens;
    norm.width = kWidth;
    operators.norm_backward(stream, norm);
    operators.attention_forward(
        stream, {qkv_.data(), out(y_), lse_.data(), 2, kTokens / 2, 4, 2, kWidth / 4, 0.25F});
    AttentionBackwardArgs attention;
    attention.qkv = qkv_.data();
    attention.o = in(y_);
    attention.lse = lse_.data();
    attention.d_o = x_.data();
    attention.dqkv = out(dqkv_);
    attention.batch = 2;
    attention.positions = kTokens / 2;
    attention.heads = 4;
    attention.kv_heads = 2;
    attention.head_width = kWidth / 4;
    operators.attention_backward(stream, attention);
    operators.residual_forward(stream,
                               {in(x_), y_.data(), out(z_), kTokens, kWidth, kTokens / 2, dropout});
    operators.cross_entropy_forward(stream,
                                    {x_.data(), ids_.data(), lse_.data(), &loss_, kTokens, kWidth});
    operators.embedding_forward(
        stream, {ids_.data(), w_.data(), nullptr, out(y_), 2, kTokens / 2, kWidth, dropout});
    stream.synchronize();
  }

 private:
  static constexpr std::int64_t kTokens = 300;
  static constexpr std::int64_t kWidth = 64;
  static ConstRef in(const std::vector<float>& v) { return {v.data(), DType::kF32}; }
  static Ref out(std::vector<float>& v) { return {v.data(), DType::kF32}; }

  std::vector<float> x_ = TestValues(9).vector(kTokens * kWidth);
  std::vector<float> y_ = x_, z_ = x_;
  std::vector<float> qkv_ = TestValues(10).vector(kTokens * 2 * kWidth);
  std::vector<float> dqkv_ = qkv_;
  std::vector<float> w_ = TestValues(11).vector(kWidth);
  std::vector<float> part_ = w_;
  std::vector<float> mean_ = std::vector<float>(4 * kTokens);
  std::vector<float> rstd_ = mean_, lse_ = mean_;
  std::vector<std::int32_t> ids_ = std::vector<std::int32_t>(kTokens);
  double loss_ = 0;
};

template <typename Work>
int allocations_of(Work&& work) {
  allocations.store(0);
  armed.store(true);
  work();
  armed.store(false);
  return allocations.load();
}

}  // namespace

TEST_CASE("allocation: the counter sees operator new") {
  CHECK(allocations_of([] { std::vector<float> seen(100); }) == 1);
}

TEST_CASE("allocation: basic operators and streams allocate nothing in steady state") {
  for (const bool queued : {false, true}) {
    for (const std::int32_t threads : {1, 3}) {
      CpuDeviceOptions options;
      options.queued = queued;
      options.threads = threads;
      const auto device = make_cpu_device(options);
      const auto event = device->make_event();
      const auto stream = device->make_stream();
      Round round;
      const auto run = [&] {
        round.enqueue(device->operators(), *stream, *event);
        stream->synchronize();
      };
      for (int warm_up = 0; warm_up < 3; ++warm_up) run();
      CAPTURE(queued);
      CAPTURE(threads);
      CHECK(allocations_of([&] {
              for (int repeat = 0; repeat < 5; ++repeat) run();
            }) == 0);
      REQUIRE_MESSAGE(!stream->failed(), stream->failure().message());
    }
  }
}

// oneDNN's dnnl_primitive_execute builds a map of its arguments: a node each, the bucket array, …
// That is its own; we add nothing and never make a primitive again.
TEST_CASE("allocation: matmul allocates only what one execution inside oneDNN does") {
  constexpr int kNewPerExecution = 6;
  const TestDevice device;
  TestValues values(1);
  const std::vector<float> a = values.vector(kRows * kCols);
  const std::vector<float> b = values.vector(kCols * kCols);
  std::vector<float> c(static_cast<std::size_t>(kRows * kCols));
  MatmulArgs args;
  args.a = {a.data(), DType::kF32};
  args.b = {b.data(), DType::kF32};
  args.c = {c.data(), DType::kF32};
  args.rows = kRows;
  args.cols = kCols;
  args.inner = kCols;
  const auto run = [&] { device.operators().matmul(*device.stream, args); };
  run();
  run();
  const int counted = allocations_of(run);
  CHECK(counted <= 3 * kNewPerExecution);
}

TEST_CASE("allocation: the layer operators allocate nothing in steady state") {
  for (const std::int32_t threads : {1, 3}) {
    CpuDeviceOptions options;
    options.threads = threads;
    const auto device = make_cpu_device(options);
    const auto stream = device->make_stream();
    LayerRound round;
    const auto run = [&] { round.enqueue(device->operators(), *stream); };
    run();
    run();
    CAPTURE(threads);
    CHECK(allocations_of([&] {
            for (int repeat = 0; repeat < 5; ++repeat) run();
          }) == 0);
    REQUIRE_MESSAGE(!stream->failed(), stream->failure().message());
  }
}
