// A link whose send blocks until the receive is posted, like a rendezvous transport's first use.
//
// What it is for: cases C47 and C48 without a network. What it does not do: move bytes between
// processes. Thread rule: one thread of its own, ended by the destructor.
#pragma once

#include "runtime/comm/link.hpp"

#include <cstdint>
#include <memory>

namespace headrace::actors::testing {

struct BlockingLinkOptions {
  std::uint64_t seed = 1;
  std::int64_t delay_us_max = 0;  // slept at random before each send
};

[[nodiscard]] comm::LinkFactory blocking_links(const BlockingLinkOptions& options);

}  // namespace headrace::actors::testing
