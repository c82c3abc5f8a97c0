// Transports: which ways of moving messages a schedule survives.
//
// What it is for: before a schedule meets NCCL or sockets, say for each way of placing sends and
// receives and each way of matching and buffering them whether it ends, hangs, or hands over a
// wrong message. What it does not do: durations; the runtime's own model (validator.hpp), but for
// its verdict. Thread rule: free functions, safe on any thread.
//
// Lowerings: kNaive posts a receive just before its consumer and a send just after its producer,
// one after the other. kBatched posts all transfers between two compute blocks together. kUnits
// does so between units: a forward and the backward right after it are one, with a single exchange
// behind both, as Megatron's steady state once had (it hangs where a rank's warm-up takes all
// forwards and should take more). kTorch is PyTorch's _add_send_recv: ranks are swept in order, one
// ready block each; a send follows its producer and at that moment its receive joins the end of the
// other rank's list, one after the other again. A pair is one compute block: its receives stand
// before it, its sends after it.
//
// Models, by name:
//  rendezvous_tag   a send ends when its receive is posted; messages are matched by what they are
//  rendezvous_fifo  the same, but the n-th send of a directed link meets the n-th receive
//  buffer1_tag      each directed link holds one message; a send ends when that has room, or when
//                   its receive is posted already, which takes it past a full buffer
//  buffered_tag     each directed link holds any number
//  buffered_fifo    the same, the n-th send meets the n-th receive
//  async_pair_fifo  transfers join a queue per peer and take place in its order, as rendezvous of
//                   whatever stands first at both ends; only a compute block waits, for what it
//                   receives (NCCL, a communicator a pair)
//  async_rank_fifo  the same with one queue for all peers of a rank (NCCL, one communicator)
#pragma once

#include "schedules/program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::schedules {

enum class Lowering { kNaive, kBatched, kUnits, kTorch };

// One rank: step i is actions [ends[i - 1], ends[i]), either one compute block (an action or a
// pair) or transfers that are posted together.
struct LoweredList {
  std::vector<Action> actions;
  std::vector<std::int32_t> ends;
};

// Without the step's end. kConfig when kTorch finds no rank that can go on.
[[nodiscard]] Result<std::vector<LoweredList>> lower(const Program& compute_only,
                                                     Lowering lowering);

struct Verdict {
  bool deadlock = false;
  bool wrong_message = false;  // what an order-matched receive took was not what it needed
  std::string text;            // the smallest cycle of waiting ranks, or the first wrong message
};

struct NamedVerdict {
  std::string
      lowering;  // "naive", "batched", "units", "torch"; "given" for a program's own transfers
  std::string model;
  Verdict verdict;
};

// What moves one way between two ranks.
struct LinkMatching {
  Rank from;
  Rank to;
  bool gradient = false;
  // Receives stand in the order of sends; else messages must be matched by (stage, microbatch).
  bool order_suffices = true;
  // The same where activations and gradients from `from` to `to` share one channel.
  bool shared_order_suffices = true;
};

struct TransportReport {
  std::vector<NamedVerdict> verdicts;  // every lowering with every model
  // The least messages a directed link must hold for the naive lowering (the given one, where there
  // is one) to end when matched by tag; 0 = rendezvous will do; -1 = no number helps.
  std::int32_t least_buffers = 0;
  std::vector<LinkMatching> links;  // by from, to, gradient
  bool runtime_ok = false;          // validate()
};

// A program with transfers is judged as given first and then, without them, in every lowering.
// @pre find_faults names no missing, repeated or misplaced action; a program that cannot progress
// is welcome.
[[nodiscard]] TransportReport examine_transports(const Program& program);

}  // namespace headrace::schedules
