// A link: what carries slots between the two ends of a boundary when they are not one and the same.
//
// What it is for: in one process both ranks use one Boundary and a transfer is its hand-over. A
// transport gives each rank an end of its own and moves what is published at one to the other. What
// it does not do: say how; a LinkFactory is passed in. Thread rule: a link runs on threads of its
// own; towards `from` it is the consumer, towards `to` the producer.
//
// Invariants
//  1. Messages leave in `order`, every step the same.
//  2. A link never keeps a rank inside a call: a send that cannot go on keeps its slot, no more.
//  3. The consumer need not be told of a message before it may ask for it (Boundary::is_wanted): a
//     send that waits for its receive always finds it posted in the end.
#pragma once

#include "runtime/comm/boundary.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace headrace::comm {

struct LinkEnds {
  Boundary* from = nullptr;  // where the producer publishes; both outlive the link
  Boundary* to = nullptr;    // where the consumer looks
  std::vector<MicrobatchIndex> order;
  std::function<void()> ring_producer;  // wakes a rank that sleeps, from any thread
  std::function<void()> ring_consumer;
};

class Link {
 public:
  virtual ~Link() = default;  // ends its threads
};

using LinkFactory = std::function<std::unique_ptr<Link>(LinkEnds)>;

}  // namespace headrace::comm
