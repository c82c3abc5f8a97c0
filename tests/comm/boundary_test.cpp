// Boundary: the hand-over of slots, by one thread and by two.
#include "runtime/comm/boundary.hpp"

#include "kernels/cpu/cpu_device.hpp"
#include "kernels/operators.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace headrace::comm {
namespace {

struct Fixture {
  explicit Fixture(std::int32_t slots, std::int32_t microbatches = 4, std::int64_t bytes = 64)
      : device(kernels::make_cpu_device({})) {
    BoundaryOptions options;
    options.payload_bytes = bytes;
    options.slots = slots;
    options.microbatches = microbatches;
    options.device = device.get();
    boundary = std::make_unique<Boundary>(options);
  }
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<Boundary> boundary;
};

std::uint64_t read_word(const Boundary& boundary, std::int32_t slot) {
  std::uint64_t word = 0;
  std::memcpy(&word, boundary.payload(slot), sizeof word);
  return word;
}

void write_word(const Boundary& boundary, std::int32_t slot, std::uint64_t word) {
  std::memcpy(boundary.payload(slot), &word, sizeof word);
}

TEST_CASE("boundary: a slot goes from free to full and back") {
  const Fixture fixture(2);
  Boundary& boundary = *fixture.boundary;
  const StepIndex step(1);
  CHECK(boundary.find_full(step, MicrobatchIndex(0)) == Boundary::kNone);
  CHECK(boundary.slots_in_use() == 0);
  const std::int32_t slot = boundary.find_free();
  REQUIRE(slot != Boundary::kNone);
  CHECK(boundary.slots_in_use() == 0);  // looking claims nothing
  write_word(boundary, slot, 42);
  boundary.publish(slot, step, MicrobatchIndex(3));
  CHECK(boundary.slots_in_use() == 1);
  CHECK(boundary.find_full(step, MicrobatchIndex(0)) == Boundary::kNone);
  REQUIRE(boundary.find_full(step, MicrobatchIndex(3)) == slot);
  CHECK(read_word(boundary, slot) == 42);
  boundary.release(slot);
  CHECK(boundary.slots_in_use() == 0);
}

TEST_CASE("boundary: a receive is posted once it was looked for in vain") {
  const Fixture fixture(2);
  Boundary& boundary = *fixture.boundary;
  const StepIndex step(2);
  const MicrobatchIndex zero(0), one(1);
  CHECK_FALSE(boundary.is_wanted(step, zero));
  CHECK(boundary.find_full(step, zero) == Boundary::kNone);
  CHECK(boundary.is_wanted(step, zero));
  CHECK_FALSE(boundary.is_wanted(step, one));
  CHECK_FALSE(boundary.is_wanted(StepIndex(3), zero));
  boundary.publish(boundary.find_free(), step, one);
  CHECK(boundary.find_full(step, one) != Boundary::kNone);  // a find posts nothing
  CHECK(boundary.is_wanted(step, zero));
}

TEST_CASE("boundary: there is no credit while every slot is in use") {
  for (std::int32_t slots = 1; slots <= 5; ++slots) {
    const Fixture fixture(slots, 8);
    Boundary& boundary = *fixture.boundary;
    std::vector<bool> given(static_cast<std::size_t>(slots), false);
    for (std::int32_t i = 0; i < slots; ++i) {
      const std::int32_t slot = boundary.find_free();
      REQUIRE(slot != Boundary::kNone);
      CHECK_FALSE(given[static_cast<std::size_t>(slot)]);
      given[static_cast<std::size_t>(slot)] = true;
      boundary.publish(slot, StepIndex(1), MicrobatchIndex(i));
    }
    CHECK(boundary.slots_in_use() == slots);
    // Whichever slot comes back is the one that is found, in every order of release.
    for (std::int32_t back = 0; back < slots; ++back) {
      CHECK(boundary.find_free() == Boundary::kNone);
      boundary.release(back);
      CHECK(boundary.find_free() == back);
      boundary.publish(back, StepIndex(1), MicrobatchIndex(7));
    }
    CHECK(boundary.find_free() == Boundary::kNone);
  }
}

TEST_CASE("boundary: a receiver accepts its step and the next and never an older one") {
  const Fixture fixture(3, 2);
  Boundary& boundary = *fixture.boundary;
  const MicrobatchIndex m(1);
  for (std::int64_t step = 1; step <= 40; ++step) {
    const std::int32_t slot = boundary.find_free();
    REQUIRE(slot != Boundary::kNone);
    boundary.publish(slot, StepIndex(step), m);
    // The sender of step+1 may be ahead of the receiver of step: both are found.
    if (step > 1) {
      const std::int32_t before = boundary.find_full(StepIndex(step - 1), m);
      REQUIRE(before != Boundary::kNone);
      CHECK(before != slot);
      boundary.release(before);
    }
    CHECK(boundary.find_full(StepIndex(step), m) == slot);
    for (std::int64_t other = 0; other <= step + 4; ++other) {
      if (other == step || other == step - 1) continue;
      CHECK(boundary.find_full(StepIndex(other), m) == Boundary::kNone);
    }
  }
}

TEST_CASE("boundary: a step number of a replay is kept apart from the first pass") {
  const Fixture fixture(2, 1);
  Boundary& boundary = *fixture.boundary;
  const StepIndex far((std::int64_t{1} << 40) + 5);
  boundary.publish(0, StepIndex(5), MicrobatchIndex(0));
  boundary.release(0);
  CHECK(boundary.find_full(far, MicrobatchIndex(0)) == Boundary::kNone);
  boundary.publish(1, far, MicrobatchIndex(0));
  CHECK(boundary.find_full(far, MicrobatchIndex(0)) == 1);
  CHECK(boundary.find_full(StepIndex(5), MicrobatchIndex(0)) == Boundary::kNone);
}

TEST_CASE("boundary: payloads are aligned and keep room for a header in front") {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{4}, std::int64_t{1000}}) {
    const Fixture fixture(4, 1, bytes);
    for (std::int32_t slot = 0; slot < 4; ++slot) {
      std::byte* payload = fixture.boundary->payload(slot);
      CHECK(reinterpret_cast<std::uintptr_t>(payload) % 256 == 0);
      // The header's room and the payload belong to this slot alone: a sanitizer would object.
      std::memset(payload - kSlotHeaderBytes, slot + 1,
                  static_cast<std::size_t>(kSlotHeaderBytes + bytes));
    }
    for (std::int32_t slot = 0; slot < 4; ++slot) {
      const std::byte* begin = fixture.boundary->payload(slot) - kSlotHeaderBytes;
      for (std::int64_t i = 0; i < kSlotHeaderBytes + bytes; ++i) {
        REQUIRE(std::to_integer<int>(begin[i]) == slot + 1);
      }
    }
  }
}

std::uint64_t word_of(std::int64_t step, std::int32_t m) {
  return static_cast<std::uint64_t>(step) * 1000 + static_cast<std::uint64_t>(m);
}

void dawdle(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 30));
      break;
    case 1:
    case 2:
      std::this_thread::yield();
      break;
    default:
      break;
  }
}

TEST_CASE("boundary: two threads hand over every payload once and unharmed") {
  constexpr std::int64_t kSteps = 150;
  constexpr std::int32_t kMicrobatches = 6;
  for (const std::int32_t slots : {1, 2, 5}) {
    const std::uint64_t seed = 20 + static_cast<std::uint64_t>(slots);
    CAPTURE(seed);
    const Fixture fixture(slots, kMicrobatches);
    Boundary& boundary = *fixture.boundary;
    std::thread producer([&boundary, seed] {
      std::mt19937_64 random(seed);
      for (std::int64_t step = 1; step <= kSteps; ++step) {
        for (std::int32_t m = 0; m < kMicrobatches; ++m) {
          std::int32_t slot = Boundary::kNone;
          while ((slot = boundary.find_free()) == Boundary::kNone) std::this_thread::yield();
          write_word(boundary, slot, word_of(step, m));
          dawdle(random);
          boundary.publish(slot, StepIndex(step), MicrobatchIndex(m));
        }
      }
    });
    std::int64_t wrong = 0;
    std::mt19937_64 random(seed + 1000);
    for (std::int64_t step = 1; step <= kSteps; ++step) {
      for (std::int32_t m = 0; m < kMicrobatches; ++m) {
        std::int32_t slot = Boundary::kNone;
        while ((slot = boundary.find_full(StepIndex(step), MicrobatchIndex(m))) ==
               Boundary::kNone) {
          std::this_thread::yield();
        }
        dawdle(random);
        wrong += read_word(boundary, slot) == word_of(step, m) ? 0 : 1;
        write_word(boundary, slot, ~0ULL);  // a producer that overtakes would send this
        boundary.release(slot);
      }
    }
    producer.join();
    CHECK(wrong == 0);
    CHECK(boundary.slots_in_use() == 0);
  }
}

// The events carry the order of the bytes where streams run later than their threads.
TEST_CASE("boundary: queued streams read what was written before the slot was full") {
  kernels::CpuDeviceOptions options;
  options.queued = true;
  options.delay_seed = 3;
  options.delay_us_max = 40;
  const auto device = kernels::make_cpu_device(options);
  BoundaryOptions shape;
  shape.payload_bytes = 64 * static_cast<std::int64_t>(sizeof(float));
  shape.slots = 2;
  shape.microbatches = 50;
  shape.device = device.get();
  Boundary boundary(shape);
  const auto from = device->make_stream();
  const auto to = device->make_stream();
  kernels::Buffer seen = device->allocate(50 * sizeof(float));
  for (std::int32_t m = 0; m < 50; ++m) {
    const std::int32_t slot = boundary.find_free();
    REQUIRE(slot != Boundary::kNone);
    from->wait(boundary.free_event(slot));
    device->operators().fill(*from, reinterpret_cast<float*>(boundary.payload(slot)),
                             static_cast<float>(m), 64);
    from->record(boundary.full_event(slot));
    boundary.publish(slot, StepIndex(1), MicrobatchIndex(m));
    // The consumer's host side is at once done with the slot; its stream reads it later.
    REQUIRE(boundary.find_full(StepIndex(1), MicrobatchIndex(m)) == slot);
    to->wait(boundary.full_event(slot));
    device->operators().copy(*to, boundary.payload(slot), seen.as<float>() + m, sizeof(float));
    to->record(boundary.free_event(slot));
    boundary.release(slot);
  }
  from->synchronize();
  to->synchronize();
  for (std::int32_t m = 0; m < 50; ++m) CHECK(seen.as<float>()[m] == static_cast<float>(m));
}

}  // namespace
}  // namespace headrace::comm
