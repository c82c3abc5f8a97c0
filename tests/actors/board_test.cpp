// Board: what is read was written as a whole, also under a writer that never rests.
#include "runtime/actors/board.hpp"

#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <set>
#include <string>
#include <thread>

namespace headrace::actors {
namespace {

// Every field is a function of one number, so that a torn entry is seen.
BoardEntry entry_of(std::int64_t n) {
  BoardEntry entry;
  entry.step = StepIndex(n);
  entry.position = 3 * n + 1;
  entry.action = {static_cast<schedules::ActionKind>(n % 4),
                  StageIndex(static_cast<std::int32_t>(n % 4096)),
                  MicrobatchIndex(static_cast<std::int32_t>(n % 1000003))};
  entry.waiting = static_cast<WaitCause>(n % 7);
  entry.since_ns = 7 * n;
  return entry;
}

bool equal(const BoardEntry& a, const BoardEntry& b) {
  return a.step == b.step && a.position == b.position && a.action == b.action &&
         a.waiting == b.waiting && a.since_ns == b.since_ns;
}

TEST_CASE("board: an entry comes back as it was published and ranks do not mix") {
  Board board(3);
  CHECK(board.ranks() == 3);
  for (std::int64_t n : {1, 2, 4095, 999999}) {
    for (std::int32_t r = 0; r < 3; ++r) board.publish(Rank(r), entry_of(n + r));
    for (std::int32_t r = 0; r < 3; ++r) CHECK(equal(board.read(Rank(r)), entry_of(n + r)));
  }
}

TEST_CASE("board: a hammering writer never shows a torn entry") {
  Board board(1);
  const std::int64_t count = testing::rounds(400000, 40000);
  std::atomic<bool> done{false};
  board.publish(Rank(0), entry_of(0));
  std::array<std::int64_t, 2> torn{};
  std::array<std::int64_t, 2> backwards{};
  const auto watch = [&](std::size_t reader) {
    std::int64_t last = 0;
    while (!done.load()) {
      const BoardEntry seen = board.read(Rank(0));
      torn[reader] += equal(seen, entry_of(seen.step.value)) ? 0 : 1;
      backwards[reader] += seen.step.value < last ? 1 : 0;
      last = seen.step.value;
    }
  };
  std::thread first(watch, 0);
  std::thread second(watch, 1);
  for (std::int64_t n = 1; n <= count; ++n) board.publish(Rank(0), entry_of(n));
  done.store(true);
  first.join();
  second.join();
  CHECK(torn == std::array<std::int64_t, 2>{});
  CHECK(backwards == std::array<std::int64_t, 2>{});
  CHECK(equal(board.read(Rank(0)), entry_of(count)));
}

TEST_CASE("board: every wait cause has a name of its own") {
  std::set<std::string> names;
  for (int cause = 0; cause < 7; ++cause) names.insert(to_string(static_cast<WaitCause>(cause)));
  CHECK(names.size() == 7);
  CHECK(names.count("unknown") == 0);
}

}  // namespace
}  // namespace headrace::actors
