// Transport verdicts on lists nobody would write, against a player that is as plain as it can be:
// it tries every rank and every transfer until nothing moves.
#include "schedules/passes.hpp"
#include "schedules/transports.hpp"
#include "tests/schedules/programs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace headrace::schedules {
namespace {

using testing::program_of;
using testing::Shape;

constexpr int kNoLimit = 1'000'000;

struct Model {
  std::string_view name;
  bool by_order;
  int buffers;  // of a directed pair of ranks; ignored by the queued models
  bool per_peer;
  bool per_rank;
};

constexpr Model kModels[] = {
    {"rendezvous_tag", false, 0, false, false},
    {"rendezvous_fifo", true, 0, false, false},
    {"buffer1_tag", false, 1, false, false},
    {"buffered_tag", false, kNoLimit, false, false},
    {"buffered_fifo", true, kNoLimit, false, false},
    {"async_pair_fifo", true, 0, true, false},
    {"async_rank_fifo", true, 0, false, true},
};

bool is_send(const Action& action) {
  return action.kind == ActionKind::kSendForward || action.kind == ActionKind::kSendBackward;
}

// (gradient, boundary, microbatch): the same at both ends.
using MessageName = std::tuple<bool, int, int>;

MessageName message_of(const Action& action) {
  const int stage = action.stage.value;
  const int m = action.microbatch.value;
  switch (action.kind) {
    case ActionKind::kSendForward:
      return {false, stage, m};
    case ActionKind::kRecvForward:
      return {false, stage - 1, m};
    case ActionKind::kSendBackward:
      return {true, stage - 1, m};
    default:
      return {true, stage, m};
  }
}

struct End {
  int rank;
  int peer;
  bool send;
  MessageName message;
  int group;         // what is posted together
  int partner = -1;  // index of the other end
  bool posted = false;
  bool done = false;
};

struct Item {
  bool compute;
  Action action;          // of a compute item
  std::vector<int> ends;  // of a group
};

class PlainPlayer {
 public:
  PlainPlayer(const Program& lowered, bool together, const Model& model)
      : program_(lowered), model_(model), items_(lowered.actions.size()) {
    for (std::size_t r = 0; r < items_.size(); ++r) read(static_cast<int>(r), together);
    pair_up();
  }

  // "ok", "deadlock" or "mismatch".
  std::string run() {
    std::vector<std::size_t> at(items_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < items_.size(); ++r)
        while (at[r] < items_[r].size() && may_pass(static_cast<int>(r), items_[r][at[r]])) {
          ++at[r];
          moved = true;
        }
      for (End& end : ends_) moved = complete(&end) || moved;
    }
    for (std::size_t r = 0; r < items_.size(); ++r)
      if (at[r] < items_[r].size()) return "deadlock";
    for (const End& end : ends_)
      if (!end.done) return "deadlock";
    return is_mixed_up_ ? "mismatch" : "ok";
  }

 private:
  [[nodiscard]] bool is_queued() const { return model_.per_peer || model_.per_rank; }

  void read(int rank, bool together) {
    bool open = false;
    for (const Action& action : program_.actions[static_cast<std::size_t>(rank)]) {
      auto& items = items_[static_cast<std::size_t>(rank)];
      if (is_compute(action.kind)) {
        items.push_back({true, action, {}});
        open = false;
        continue;
      }
      if (!open) {
        items.push_back({false, {}, {}});
        ++groups_;
      }
      open = together;
      items.back().ends.push_back(static_cast<int>(ends_.size()));
      const MessageName message = message_of(action);
      const auto& [gradient, lower, m] = message;
      const int low = program_.rank_of(StageIndex{lower}, MicrobatchIndex{m}).value;
      const int high = program_.rank_of(StageIndex{lower + 1}, MicrobatchIndex{m}).value;
      ends_.push_back({rank, rank == low ? high : low, is_send(action), message, groups_});
    }
  }

  void pair_up() {
    std::map<std::pair<int, int>, std::vector<int>> sends;
    std::map<std::pair<int, int>, std::vector<int>> receives;
    for (int i = 0; i < static_cast<int>(ends_.size()); ++i) {
      const End& end = ends_[static_cast<std::size_t>(i)];
      (end.send ? sends[{end.rank, end.peer}] : receives[{end.peer, end.rank}]).push_back(i);
    }
    for (const auto& [link, from] : sends) {
      const std::vector<int>& to = receives[link];
      for (std::size_t i = 0; i < from.size(); ++i) {
        End& sender = ends_[static_cast<std::size_t>(from[i])];
        const auto same = std::find_if(to.begin(), to.end(), [&](int end) {
          return ends_[static_cast<std::size_t>(end)].message == sender.message;
        });
        sender.partner = model_.by_order ? to[i] : *same;
        is_mixed_up_ = is_mixed_up_ || (model_.by_order && *same != to[i]);
        ends_[static_cast<std::size_t>(sender.partner)].partner = from[i];
      }
    }
  }

  bool may_pass(int rank, const Item& item) {
    if (item.compute) return may_compute(rank, item.action);
    for (int end : item.ends) ends_[static_cast<std::size_t>(end)].posted = true;
    if (is_queued()) return true;
    return std::all_of(item.ends.begin(), item.ends.end(),
                       [&](int end) { return ends_[static_cast<std::size_t>(end)].done; });
  }

  // Its input has been computed before it on its own rank, or a receive for it is done.
  bool may_compute(int rank, const Action& action) {
    const bool forward = action.kind == ActionKind::kForward;
    if (action.kind == ActionKind::kBackwardWeight) return true;
    const int source = action.stage.value + (forward ? -1 : 1);
    const std::pair<bool, std::pair<int, int>> made{forward,
                                                    {action.stage.value, action.microbatch.value}};
    if (source >= 0 && source < program_.stages) {
      if (program_.rank_of(StageIndex{source}, action.microbatch).value == rank) {
        if (!made_.contains({forward, {source, action.microbatch.value}})) return false;
      } else {
        const MessageName message{!forward, forward ? source : action.stage.value,
                                  action.microbatch.value};
        const auto receive = std::find_if(ends_.begin(), ends_.end(), [&](const End& end) {
          return !end.send && end.message == message;
        });
        if (!receive->done) return false;
      }
    }
    made_[made] = true;
    return true;
  }

  // All ends of the same queue that belong to earlier groups are done.
  [[nodiscard]] bool is_at_head(const End& end) const {
    if (!is_queued()) return true;
    return std::all_of(ends_.begin(), ends_.end(), [&](const End& other) {
      const bool same_queue = other.rank == end.rank && (model_.per_rank || other.peer == end.peer);
      return !same_queue || other.group >= end.group || other.done;
    });
  }

  bool complete(End* end) {
    if (end->done || !end->posted) return false;
    End& partner = ends_[static_cast<std::size_t>(end->partner)];
    if (model_.buffers == 0) {
      if (!partner.posted || !is_at_head(*end) || !is_at_head(partner)) return false;
      end->done = partner.done = true;
      return true;
    }
    int& held =
        held_[end->send ? std::pair{end->rank, end->peer} : std::pair{end->peer, end->rank}];
    if (end->send) {
      // A receive that is there already takes the message past the buffer.
      if (partner.posted && !partner.done) {
        end->done = partner.done = true;
        return true;
      }
      if (held >= model_.buffers || is_overtaking(*end)) return false;
      ++held;
    } else {
      if (!partner.done) return false;
      --held;
    }
    end->done = true;
    return true;
  }

  // A send of the same rank to the same peer that was posted before it still waits for room.
  [[nodiscard]] bool is_overtaking(const End& end) const {
    return std::any_of(ends_.begin(), ends_.end(), [&](const End& other) {
      return &other < &end && other.send && other.rank == end.rank && other.peer == end.peer &&
             other.posted && !other.done;
    });
  }

  const Program& program_;
  Model model_;
  std::vector<std::vector<Item>> items_;
  std::vector<End> ends_;
  std::map<std::pair<bool, std::pair<int, int>>, bool> made_;  // (forward, (stage, microbatch))
  std::map<std::pair<int, int>, int> held_;
  int groups_ = 0;
  bool is_mixed_up_ = false;
};

std::string word_of(const Verdict& verdict) {
  if (verdict.deadlock) return "deadlock";
  return verdict.wrong_message ? "mismatch" : "ok";
}

// Swaps neighbours where the order within the stage and microbatch allows it.
void shuffle(Program* program, int swaps, std::mt19937* random) {
  for (std::vector<Action>& list : program->actions) {
    for (int i = 0; i < swaps && list.size() > 1; ++i) {
      const std::size_t at = (*random)() % (list.size() - 1);
      if (list[at].stage == list[at + 1].stage && list[at].microbatch == list[at + 1].microbatch)
        continue;
      std::swap(list[at], list[at + 1]);
    }
  }
}

struct Start {
  std::string_view schedule;
  Shape shape;
};

constexpr Start kStarts[] = {
    {"1f1b", {3, 4}},          {"zb_h2", {3, 5}},   {"interleaved_1f1b", {2, 4, 2}},
    {"looped_bfs", {2, 3, 2}}, {"zbv", {2, 4, 2}},  {"interleaved_zb", {3, 3, 2}},
    {"hanayo", {3, 3, 2}},     {"chimera", {4, 4}}, {"forward_only", {3, 4, 2}},
};

TEST_CASE("transports: verdicts on shuffled lists equal those of a plain player") {
  const unsigned seed = 20261201;
  CAPTURE(seed);
  std::mt19937 random(seed);
  std::map<std::string, int> seen;
  for (int round = 0; round < 90; ++round) {
    const Start& start = kStarts[static_cast<std::size_t>(round) % std::size(kStarts)];
    Program program = without_pairs(program_of(start.schedule, start.shape));
    shuffle(&program, round / 9, &random);
    CAPTURE(start.schedule);
    CAPTURE(round);
    const TransportReport report = examine_transports(program);
    const Program lowered = with_transfers(program);
    for (const NamedVerdict& named : report.verdicts) {
      // The plain player knows no sweep and no pairs; the reference records cover both.
      if (named.lowering == "torch" || named.lowering == "units") continue;
      const auto model = std::find_if(std::begin(kModels), std::end(kModels),
                                      [&](const Model& m) { return m.name == named.model; });
      REQUIRE(model != std::end(kModels));
      const std::string expected = PlainPlayer(lowered, named.lowering == "batched", *model).run();
      CHECK_MESSAGE(word_of(named.verdict) == expected,
                    named.lowering << " " << named.model << " " << named.verdict.text);
      ++seen[expected];
    }
    for (int k = 0; k < 8; ++k) {
      const Model model{"", false, k, false, false};
      const bool ends = PlainPlayer(lowered, false, model).run() == "ok";
      CHECK(ends == (report.least_buffers >= 0 && report.least_buffers <= k));
    }
  }
  // All three occur, or the test shows nothing.
  CHECK(seen["ok"] > 100);
  CHECK(seen["deadlock"] > 100);
  CHECK(seen["mismatch"] > 10);
}

}  // namespace
}  // namespace headrace::schedules
