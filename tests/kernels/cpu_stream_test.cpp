#include "kernels/cpu/cpu_stream.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/cpu/queued_stream.hpp"
#include "kernels/device_error.hpp"
#include "kernels/operators.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <immintrin.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace headrace;
using namespace headrace::kernels;

namespace {

struct ThrowArgs {
  int kind = 0;
};
void throw_in_task(CpuContext& context, const ThrowArgs& args) {
  if (args.kind == 0) throw std::runtime_error("the mill stopped");
  if (args.kind == 1) throw DeviceError("the library refused");
  if (args.kind == 2) throw 7;  // not a std::exception
  context.parallel_for(100, [](std::int64_t block, int) {
    if (block == 57) throw std::runtime_error("block 57 broke");
  });
}
struct AppendArgs {
  std::vector<int>* log = nullptr;
  int value = 0;
};
void append(CpuContext&, const AppendArgs& args) { args.log->push_back(args.value); }

struct StopArgs {
  std::atomic<bool>* stop = nullptr;
  std::atomic<int>* ran = nullptr;
};
void stop_in_block_ten(CpuContext& context, const StopArgs& args) {
  context.parallel_for(1000, [&args](std::int64_t block, int) {
    if (block == 10) args.stop->store(true);
    args.ran->fetch_add(1);
  });
}
struct ControlArgs {
  unsigned* seen = nullptr;
};
void read_control_word(CpuContext& context, const ControlArgs& args) {
  context.parallel_for(2, [&args](std::int64_t block, int) { args.seen[block] = _mm_getcsr(); });
}

template <typename Args>
void enqueue(Stream& stream, void (*function)(CpuContext&, const Args&), const Args& args) {
  static_cast<CpuStream&>(stream).enqueue(Task(function, args));
}

std::unique_ptr<Device> device_of(bool queued, const std::atomic<bool>* stop = nullptr,
                                  std::uint64_t seed = 0, std::int32_t threads = 1) {
  CpuDeviceOptions options;
  options.queued = queued;
  options.stop = stop;
  options.threads = threads;
  options.delay_seed = seed;
  options.delay_us_max = 20;
  return make_cpu_device(options);
}

}  // namespace

TEST_CASE("cpu device: the numerics id names every part") {
  const auto device = device_of(false);
  const std::string id = device->numerics_id();
  CAPTURE(id);
  CHECK(id.rfind("cpu/avx", 0) == 0);
  CHECK(id.find("/onednn2.") != std::string::npos);
  CHECK(id.find("/rows256/lanes16/1") != std::string::npos);
  CHECK(device->supports_bf16() == (id.find("avx512") != std::string::npos));
}

TEST_CASE("cpu device: buffers are zeroed aligned and copied both ways") {
  const auto device = device_of(false);
  for (const std::size_t bytes : {0U, 1U, 255U, 4096U}) {
    const Buffer buffer = device->allocate(bytes);
    CHECK(buffer.bytes() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256 == 0);
    for (std::size_t i = 0; i < bytes; ++i) REQUIRE(buffer.data()[i] == std::byte{0});
  }
  const Buffer buffer = device->allocate(12);
  const float values[3] = {1, 2, 3};
  float back[3] = {};
  device->copy_from_host(buffer.data(), values, sizeof(values));
  device->copy_to_host(back, buffer.data(), sizeof(back));
  CHECK(back[2] == 3.0F);
}

TEST_CASE("cpu stream: a task that throws fails the stream and later work is skipped") {
  const StatusCode codes[] = {StatusCode::kStageFailed, StatusCode::kDeviceFailed,
                              StatusCode::kStageFailed, StatusCode::kStageFailed};
  const char* texts[] = {"the mill stopped", "the library refused", "exception", "block 57 broke"};
  for (const bool queued : {false, true}) {
    for (int kind = 0; kind < 4; ++kind) {
      const auto device = device_of(queued, nullptr, 0, 3);
      const auto event = device->make_event();
      const auto stream = device->make_stream();
      std::vector<int> log;
      enqueue(*stream, append, {&log, 1});
      enqueue(*stream, throw_in_task, {kind});
      enqueue(*stream, throw_in_task, {1 - kind % 2});
      enqueue(*stream, append, {&log, 2});
      stream->record(*event);
      stream->synchronize();
      CAPTURE(queued);
      CAPTURE(kind);
      CHECK(stream->failed());
      CHECK(stream->failure().code() == codes[kind]);
      CHECK(stream->failure().message().find(texts[kind]) != std::string::npos);
      CHECK(log == std::vector<int>{1});
      CHECK(event->done());
    }
  }
}

TEST_CASE("cpu stream: a raised stop flag cancels work and completes events") {
  for (const bool queued : {false, true}) {
    std::atomic<bool> stop{false};
    const auto device = device_of(queued, &stop);
    const auto event = device->make_event();
    const auto stream = device->make_stream();
    std::vector<int> log;
    stop.store(true);
    enqueue(*stream, append, {&log, 1});  // has no blocks and never asks for the flag itself
    device->operators().sleep(*stream, 3'600'000'000'000);
    stream->record(*event);
    stream->synchronize();
    CHECK(log.empty());
    CHECK(event->done());
    CHECK(stream->failure().code() == StatusCode::kCancelled);
  }
}

TEST_CASE("cpu stream: the stop flag ends a kernel between two blocks") {
  for (const std::int32_t threads : {1, 3}) {
    std::atomic<bool> stop{false};
    std::atomic<int> ran{0};
    const auto device = device_of(false, &stop, 0, threads);
    const auto stream = device->make_stream();
    enqueue(*stream, stop_in_block_ten, {&stop, &ran});
    CHECK(stream->failure().code() == StatusCode::kCancelled);
    CHECK(ran.load() >= 11 - threads);
    CHECK(ran.load() < 1000);
  }
}

TEST_CASE("cpu stream: the stop flag ends a sleep that has begun") {
  std::atomic<bool> stop{false};
  const auto device = device_of(true, &stop);
  const auto stream = device->make_stream();
  device->operators().sleep(*stream, 3'600'000'000'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK_FALSE(stream->idle());
  stop.store(true);
  stream->synchronize();
  CHECK(stream->failure().code() == StatusCode::kCancelled);
}

TEST_CASE("cpu stream: kernels see the documented control word and the caller keeps its own") {
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040U);  // flush to zero and denormals-are-zero
  for (const bool queued : {false, true}) {
    const auto device = device_of(queued, nullptr, 0, 2);
    const auto stream = device->make_stream();
    unsigned seen[2] = {};
    enqueue(*stream, read_control_word, {seen});
    stream->synchronize();
    CHECK((seen[0] & ~0x3FU) == 0x1F80U);
    CHECK((seen[1] & ~0x3FU) == 0x1F80U);
  }
  CHECK((_mm_getcsr() & 0x8040U) == 0x8040U);
  _mm_setcsr(before);
}

TEST_CASE("cpu stream: an event that was never recorded is done and does not hold") {
  for (const bool queued : {false, true}) {
    const auto device = device_of(queued);
    const auto event = device->make_event();
    const auto stream = device->make_stream();
    CHECK(event->done());
    stream->wait(*event);
    stream->synchronize();
    CHECK(stream->idle());
  }
}

TEST_CASE("queued stream: a wait captures the newest recording at the call") {
  const auto device = device_of(true);
  const auto event = device->make_event();
  const auto producer = device->make_stream();
  const auto consumer = device->make_stream();
  producer->record(*event);
  producer->synchronize();
  // The consumer reaches its wait only after the second recording has been enqueued.
  device->operators().sleep(*consumer, 5'000'000);
  consumer->wait(*event);
  device->operators().sleep(*producer, 50'000'000);
  producer->record(*event);
  CHECK_FALSE(event->done());
  consumer->synchronize();  // waits for the first recording only
  CHECK_FALSE(event->done());
  consumer->wait(*event);
  consumer->synchronize();
  CHECK(event->done());
}

TEST_CASE("queued stream: host calls come in order after earlier work") {
  const auto device = device_of(true, nullptr, 5);
  std::vector<int> log;
  const auto stream = device->make_stream();
  for (int i = 0; i < 10; ++i) {
    enqueue(*stream, append, {&log, 2 * i});
    stream->call_host({[](void* context, std::uint64_t argument) {
                         static_cast<std::vector<int>*>(context)->push_back(
                             static_cast<int>(argument));
                       },
                       &log, static_cast<std::uint64_t>(2 * i + 1)});
  }
  stream->synchronize();
  REQUIRE(log.size() == 20U);
  for (int i = 0; i < 20; ++i) CHECK(log[static_cast<std::size_t>(i)] == i);
}

TEST_CASE("queued stream: the destructor runs what was enqueued") {
  const auto device = device_of(true);
  std::vector<int> log;
  {
    const auto stream = device->make_stream();
    device->operators().sleep(*stream, 2'000'000);
    for (int i = 0; i < 5; ++i) enqueue(*stream, append, {&log, i});
  }
  CHECK(log.size() == 5U);
}

TEST_CASE("queued stream: a full ring holds the enqueuing thread and loses nothing") {
  const auto device = device_of(true);
  std::vector<int> log;
  const auto stream = device->make_stream();
  device->operators().sleep(*stream, 5'000'000);
  const int count = static_cast<int>(QueuedStream::kCapacity) * 3;
  for (int i = 0; i < count; ++i) enqueue(*stream, append, {&log, i});
  stream->synchronize();
  REQUIRE(log.size() == static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) REQUIRE(log[static_cast<std::size_t>(i)] == i);
}

// Two streams hand one buffer to and fro: stream a doubles and adds one, stream b adds three. Every
// order but the enqueued one gives another number.
TEST_CASE("queued stream: two streams ordered by events agree with inline for 200 seeds") {
  const auto run = [](Device& device) {
    const auto a_done = device.make_event();
    const auto b_done = device.make_event();
    const Buffer x = device.allocate(sizeof(float) * 8);
    const Buffer three = device.allocate(sizeof(float) * 8);
    const auto a = device.make_stream();
    const auto b = device.make_stream();
    device.operators().fill(*a, three.as<float>(), 3.0F, 8);
    for (int round = 0; round < 6; ++round) {
      a->wait(*b_done);
      device.operators().add(*a, x.as<float>(), x.as<float>(), x.as<float>(), 8);
      a->record(*a_done);
      b->wait(*a_done);
      device.operators().add(*b, x.as<float>(), three.as<float>(), x.as<float>(), 8);
      b->record(*b_done);
    }
    a->synchronize();
    b->synchronize();
    CHECK(a_done->done());
    CHECK(b_done->done());
    float result = 0;
    device.copy_to_host(&result, x.data(), sizeof(result));
    return result;
  };
  const auto reference = device_of(false);
  const float expected = run(*reference);
  CHECK(expected == 189.0F);  // x = 2x + 3, six times from 0
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    const auto device = device_of(true, nullptr, seed);
    REQUIRE(run(*device) == expected);
  }
}

TEST_CASE("thread pool: every block runs once for many jobs of all sizes") {
  CpuContextOptions options;
  options.threads = 3;
  CpuContext context(options);
  std::vector<std::atomic<int>> counts(70);
  for (int repeat = 0; repeat < 20; ++repeat) {
    for (std::int64_t blocks = 0; blocks <= 70; blocks += 7) {
      for (auto& count : counts) count.store(0);
      context.parallel_for(blocks, [&counts](std::int64_t block, int thread) {
        REQUIRE(thread >= 0);
        REQUIRE(thread < 3);
        counts[static_cast<std::size_t>(block)].fetch_add(1);
      });
      for (std::int64_t block = 0; block < 70; ++block) {
        REQUIRE(counts[static_cast<std::size_t>(block)].load() == (block < blocks ? 1 : 0));
      }
    }
  }
}

TEST_CASE("thread pool: a failed job does not spoil the next one") {
  CpuContextOptions options;
  options.threads = 3;
  CpuContext context(options);
  for (int repeat = 0; repeat < 50; ++repeat) {
    CHECK_THROWS_WITH(context.parallel_for(30,
                                           [](std::int64_t block, int) {
                                             if (block % 7 == 3) throw std::runtime_error("three");
                                           }),
                      "three");
    std::atomic<int> ran{0};
    context.parallel_for(30, [&ran](std::int64_t, int) { ran.fetch_add(1); });
    CHECK(ran.load() == 30);
  }
}
