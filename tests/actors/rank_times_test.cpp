// TimeAccount: what counts as compute, as waiting and as being without a core.
#include "runtime/actors/rank_times.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

namespace headrace::actors {
namespace {

constexpr double kSleep = 0.03;

void sleep_once() { std::this_thread::sleep_for(std::chrono::duration<double>(kSleep)); }

double seconds_of(const RankTimes& times, TimeCause cause) {
  return times.seconds[static_cast<std::size_t>(cause)];
}

TEST_CASE("rank times: work that does not run on a core is oversubscribed") {
  RankTimes times;
  TimeAccount account(true);
  account.start();
  sleep_once();
  const double useful = account.charge(times, TimeCause::kCompute, true);
  CHECK(useful < 0.5 * kSleep);
  CHECK(useful == seconds_of(times, TimeCause::kCompute));
  CHECK(times.work == useful);
  CHECK(seconds_of(times, TimeCause::kOversubscribed) > 0.5 * kSleep);
}

TEST_CASE("rank times: wall time counts where others compute for the rank") {
  RankTimes times;
  TimeAccount account(false);
  account.start();
  sleep_once();
  CHECK(account.charge(times, TimeCause::kCompute, true) >= kSleep);
  CHECK(seconds_of(times, TimeCause::kOversubscribed) == 0);
}

TEST_CASE("rank times: a wait is charged to its cause and is no work") {
  RankTimes times;
  TimeAccount account(true);
  account.start();
  sleep_once();
  CHECK(account.charge(times, TimeCause::kGradient, false) >= kSleep);
  CHECK(seconds_of(times, TimeCause::kGradient) >= kSleep);
  CHECK(times.work == 0);
  CHECK(seconds_of(times, TimeCause::kOversubscribed) == 0);
}

TEST_CASE("rank times: the CPU clock rests after short work and returns after long") {
  RankTimes times;
  TimeAccount account(true);
  account.start();
  for (int i = 0; i < 10'000; ++i) account.charge(times, TimeCause::kCompute, true);
  const double before = seconds_of(times, TimeCause::kOversubscribed);
  sleep_once();
  CHECK(account.charge(times, TimeCause::kCompute, true) >= kSleep);
  CHECK(seconds_of(times, TimeCause::kOversubscribed) == before);
  sleep_once();
  CHECK(account.charge(times, TimeCause::kCompute, true) < 0.5 * kSleep);
  CHECK(seconds_of(times, TimeCause::kOversubscribed) > before + 0.5 * kSleep);
}

}  // namespace
}  // namespace headrace::actors
