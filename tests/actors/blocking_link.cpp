#include "tests/actors/blocking_link.hpp"

#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

namespace headrace::actors::testing {
namespace {

class BlockingLink : public comm::Link {
 public:
  BlockingLink(comm::LinkEnds ends, const BlockingLinkOptions& options, std::uint64_t number)
      : ends_(std::move(ends)),
        options_(options),
        random_(options.seed * 1000 + number),
        thread_([this] { run(); }) {}
  ~BlockingLink() override {
    stop_.store(true);
    thread_.join();
  }

 private:
  void run() {
    for (std::int64_t step = 1;; ++step) {
      for (const MicrobatchIndex m : ends_.order) {
        if (!carry(StepIndex(step), m)) return;
      }
    }
  }

  // One message: the send begins, waits for its receive, and ends. False when told to stop.
  bool carry(StepIndex step, MicrobatchIndex m) {
    std::int32_t from = comm::Boundary::kNone, to = comm::Boundary::kNone;
    const auto until = [&](auto&& true_now) {
      while (!true_now()) {
        if (stop_.load()) return false;
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
      return true;
    };
    const auto sent = [&] { return (from = ends_.from->find_full(step, m)) >= 0; };
    const auto posted = [&] { return ends_.to->is_wanted(step, m); };
    const auto free = [&] { return (to = ends_.to->find_free()) >= 0; };
    if (!until(sent) || !until([&] { return ends_.from->full_event(from).done(); })) return false;
    if (options_.delay_us_max > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<std::int64_t>(
          random_() % static_cast<std::uint64_t>(options_.delay_us_max))));
    }
    if (!until(posted) || !until(free) || !until([&] { return ends_.to->free_event(to).done(); })) {
      return false;
    }
    std::memcpy(ends_.to->payload(to), ends_.from->payload(from),
                static_cast<std::size_t>(ends_.from->options().payload_bytes));
    ends_.to->publish(to, step, m);
    ends_.ring_consumer();
    ends_.from->release(from);
    ends_.ring_producer();
    return true;
  }

  comm::LinkEnds ends_;
  BlockingLinkOptions options_;
  std::mt19937_64 random_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

comm::LinkFactory blocking_links(const BlockingLinkOptions& options) {
  auto number = std::make_shared<std::uint64_t>(0);
  return [options, number](comm::LinkEnds ends) {
    return std::make_unique<BlockingLink>(std::move(ends), options, (*number)++);
  };
}

}  // namespace headrace::actors::testing
