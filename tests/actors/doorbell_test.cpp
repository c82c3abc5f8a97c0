// Doorbell: a wake is never lost, and nobody is woken who did not sleep.
#include "runtime/actors/doorbell.hpp"

#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace headrace::actors {
namespace {

TEST_CASE("doorbell: rings wake a sleeping rank once and a waking one never") {
  Doorbell bell(3);
  std::vector<int> wakes(3, 0);
  bell.set_hook([&wakes](Rank rank) { ++wakes[rank.index()]; });
  bell.ring(Rank(1));
  CHECK(wakes == std::vector<int>{0, 0, 0});
  bell.sleep(Rank(1));
  bell.ring(Rank(0));
  bell.ring(Rank(1));
  bell.ring(Rank(1));
  CHECK(wakes == std::vector<int>{0, 1, 0});
  bell.sleep(Rank(1));
  bell.awake(Rank(1));
  bell.ring(Rank(1));
  CHECK(wakes == std::vector<int>{0, 1, 0});
  bell.sleep(Rank(2));
  bell.sleep(Rank(1));
  bell.ring(Rank(2));
  bell.ring(Rank(1));
  CHECK(wakes == std::vector<int>{0, 2, 1});
}

// One side of a game of ball: it plays when the ball is its own, else it sleeps as a rank does.
class Player {
 public:
  void wake() {
    const std::lock_guard lock(mutex_);
    ++woken_;
    signal_.notify_one();
  }
  // False when no wake came for a time that only a lost wake explains.
  bool wait_for_wake() {
    std::unique_lock lock(mutex_);
    if (!signal_.wait_for(lock, std::chrono::seconds(20), [this] { return woken_ > 0; }))
      return false;
    --woken_;
    return true;
  }

 private:
  std::mutex mutex_;
  std::condition_variable signal_;
  int woken_ = 0;
};

TEST_CASE("doorbell: no wake is lost between two threads") {
  const std::int64_t hits = 2 * testing::rounds(40000, 5000);
  Doorbell bell(2);
  Player players[2];
  bell.set_hook([&players](Rank rank) { players[rank.index()].wake(); });
  std::atomic<std::int64_t> ball{0};  // whose turn it is: the parity
  std::atomic<std::int64_t> lost{0};
  const auto play = [&](std::int32_t side) {
    for (std::int64_t hit = side; hit < hits; hit += 2) {
      // Some rounds answer at once, others are asleep by the time the ball comes.
      for (std::int64_t spin = hit % 7; spin > 0; --spin) std::this_thread::yield();
      while (ball.load(std::memory_order_acquire) != hit) {
        if (lost.load() != 0) return;
        bell.sleep(Rank(side));
        if (ball.load(std::memory_order_acquire) == hit) {
          bell.awake(Rank(side));
          continue;
        }
        // A wake that came before an `awake` may still be there: the loop looks again.
        if (!players[side].wait_for_wake()) lost.store(1);
      }
      ball.store(hit + 1, std::memory_order_release);
      bell.ring(Rank(1 - side));
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(lost.load() == 0);
  CHECK(ball.load() == hits);
}

}  // namespace
}  // namespace headrace::actors
