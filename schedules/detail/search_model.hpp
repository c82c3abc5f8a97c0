// What the search behind `auto` works on: the actions of one problem as numbered nodes, the order
// of every rank as node numbers, and their price.
//
// What it is for: price thousands of orders a second. What it does not do: find orders
// (search_lists.hpp, search_moves.hpp) or have the last word: make_auto lets simulate() judge.
// Thread rule: distinct objects are independent; a const object may be shared.
#pragma once

#include "schedules/detail/generators.hpp"

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace headrace::schedules::detail {

// Node numbers are 3 * (stage * M + microbatch) + part.
enum class Part : std::int32_t { kForward = 0, kInput = 1, kWeight = 2 };
using Node = std::int32_t;
using Orders = std::vector<std::vector<Node>>;  // [rank]

inline constexpr double kNoTime = std::numeric_limits<double>::infinity();

// [Note: what auto minimises] Max over ranks of (last end - begin); among equals the makespan.
// Under SearchMeasure::kSpan a rank begins with its first action, under kGlobal all begin at 0, so
// that the span is the makespan. Lower is better; infinite = the order deadlocks.
struct Score {
  double span = kNoTime;
  double makespan = kNoTime;
  double mean_span = kNoTime;  // over ranks; steers the local search, decides nothing

  [[nodiscard]] bool is_better_than(const Score& other) const {
    return span != other.span ? span < other.span : makespan < other.makespan;
  }
};

struct NodeFacts {
  Node source = -1;        // the node whose output it consumes, -1 = none
  std::int32_t stage = 0;  //
  Rank consumer_rank{-1};  // where its output goes, -1 = nowhere
  double latency = 0;      // from the end of `source` to here
  double duration = 0;
};

class SearchModel {
 public:
  // @pre the goal was checked; the program gives shape and placement, its lists are not read.
  SearchModel(const Program& shape, const SearchGoal& goal);

  [[nodiscard]] std::int32_t ranks() const { return shape_.ranks; }
  [[nodiscard]] std::int32_t stages() const { return shape_.stages; }
  [[nodiscard]] SearchMeasure measure() const { return measure_; }
  [[nodiscard]] std::int32_t microbatches() const { return shape_.microbatches; }
  // Memory in millionths of an activation: what a rank may hold, and what an action takes (F) or
  // gives back (I, W; negative).
  [[nodiscard]] std::int64_t memory_limit() const { return memory_limit_; }
  [[nodiscard]] std::int64_t memory_of(Part part) const {
    return memory_[static_cast<std::size_t>(part)];
  }
  [[nodiscard]] std::size_t node_count() const { return nodes_.size(); }
  [[nodiscard]] const NodeFacts& facts(Node node) const {
    return nodes_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] Node node(Part part, std::int32_t stage, std::int32_t microbatch) const {
    return 3 * (stage * shape_.microbatches + microbatch) + static_cast<std::int32_t>(part);
  }
  [[nodiscard]] static Part part_of(Node node) { return static_cast<Part>(node % 3); }
  [[nodiscard]] const StageCost& cost(std::int32_t stage) const {
    return costs_[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] double hop() const { return hop_; }
  [[nodiscard]] Rank rank_of(std::int32_t stage) const {
    return shape_.rank_of(StageIndex{stage}, MicrobatchIndex{0});
  }
  [[nodiscard]] const std::vector<std::int32_t>& stages_on(Rank rank) const {
    return rank_stages_[rank.index()];
  }
  // Several boundaries share a link, so that every rank must take them in one common order.
  [[nodiscard]] bool shares_links() const { return shares_links_; }
  // No order can cost less than the work of the busiest rank.
  [[nodiscard]] double work_max() const { return work_max_; }

  // Whether `first` must stay before `second` where both stand in the list of one rank: actions of
  // one cell, one kind of one stage (ascending microbatches), one kind on a shared link.
  [[nodiscard]] bool is_ordered(Node first, Node second) const {
    if (first / 3 == second / 3) return true;
    const Part part = part_of(first);
    if (part != part_of(second)) return false;
    return facts(first).stage == facts(second).stage || (shares_links_ && part != Part::kWeight);
  }
  // Whether a rank that runs `list` stays within the limit.
  [[nodiscard]] bool fits(const std::vector<Node>& list) const;

  [[nodiscard]] Orders orders_of(const Program& program) const;
  [[nodiscard]] Program program_of(const Orders& orders) const;

 private:
  Program shape_;  // empty lists
  SearchMeasure measure_;
  std::int64_t memory_limit_ = 0;
  std::array<std::int64_t, 3> memory_{};  // [part]
  double hop_ = 0;
  double work_max_ = 0;
  bool shares_links_ = false;
  std::vector<StageCost> costs_;                        // [stage]
  std::vector<std::vector<std::int32_t>> rank_stages_;  // [rank] ascending
  std::vector<NodeFacts> nodes_;                        // [node]
};

// Runs orders as the simulator does in its overlap model, on as many cores as ranks. Beyond it, an
// order that stands still with one activation slot more than the peak of the stage above has no
// price: a forward must come after the input gradient that frees its slot (BoundarySlots of
// validator.hpp). As in the simulator that takes no time.
class Evaluator {
 public:
  explicit Evaluator(const SearchModel& model);

  // Sets the slots of the stages of one rank from its list; run() uses what was set last.
  void set_slots(const Orders& orders, Rank rank);
  void set_all_slots(const Orders& orders);
  Score run(const Orders& orders);

  // The chain of nodes that fixes the end of the rank with the largest span of the last run, from
  // its last action back to an action that waited for nothing.
  void critical_chain(const Orders& orders, std::vector<Node>* chain) const;

 private:
  // Runs the list of one rank until it waits; wakes those that waited for it.
  void advance(const Orders& orders, Rank rank);
  [[nodiscard]] Score score(const Orders& orders);
  // The input gradient that frees the slot a forward takes, or -1.
  [[nodiscard]] Node slot_source(Node node, const NodeFacts& facts) const {
    const std::int32_t lead = lead_[static_cast<std::size_t>(facts.stage)];
    if (node % 3 != 0 || node < first_blocked_[static_cast<std::size_t>(facts.stage)]) return -1;
    return node + lead;
  }
  [[nodiscard]] double end_of(Node node) const { return ends_[static_cast<std::size_t>(node)]; }

  const SearchModel& model_;
  std::vector<double> ends_;             // [node], negative = has not run
  std::vector<std::int32_t> columns_;    // [node]
  std::vector<std::int32_t> next_;       // [rank] column
  std::vector<Node> awaited_;            // [rank]
  std::vector<double> now_;              // [rank]
  std::vector<Node> first_blocked_;      // [stage] the first forward that needs a slot back
  std::vector<std::int32_t> lead_;       // [stage] from such a forward to what frees its slot
  std::vector<std::int32_t> in_flight_;  // [stage] F - I, scratch of set_slots
  std::vector<std::int32_t> peaks_;      // [stage] of in_flight_
  std::vector<Rank> awake_;
  Rank worst_{0};
};

}  // namespace headrace::schedules::detail
