// One run of lowered lists under one transport.
//
// What it is for: transports.cpp. What it does not do: lower. Thread rule: free functions, safe on
// any thread.
#pragma once

#include "schedules/transports.hpp"

#include <cstdint>
#include <vector>

namespace headrace::schedules::detail {

inline constexpr std::int32_t kUnbounded = -1;

// A transfer as its link sees it.
struct Message {
  bool is_send = false;
  Rank peer;
  std::int64_t id = 0;  // equal at both ends
};

// @pre `action` is a transfer.
[[nodiscard]] Message message_of(const Program& program, const Action& action);

struct BlockingModel {
  std::int32_t buffers = 0;  // messages a directed link holds; kUnbounded
  bool by_order = false;     // the n-th send meets the n-th receive
};

// A step of transfers ends when all of its transfers have.
[[nodiscard]] Verdict run_blocking(const Program& program, const std::vector<LoweredList>& lists,
                                   const BlockingModel& model);

// Queues per peer, or one per rank; a compute block waits for what was received for it.
[[nodiscard]] Verdict run_queued(const Program& program, const std::vector<LoweredList>& lists,
                                 bool per_peer);

// The smallest cycle in `waits_on` ([rank] -> ranks), beginning with its lowest rank; empty if
// none.
[[nodiscard]] std::vector<Rank> smallest_cycle(const std::vector<std::vector<Rank>>& waits_on);

}  // namespace headrace::schedules::detail
