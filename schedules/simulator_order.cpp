// kOverlap and kSync with one core per rank.
#include "schedules/detail/simulation.hpp"

#include <algorithm>

namespace headrace::schedules::detail {
namespace {

// What a block started at the end of.
enum class Cause : std::uint8_t { kPrevious, kFirstInput, kSecondInput };

// [Note: no clock needed] With one core per rank and nothing that two ranks compete for, the start
// of a block is the later of its rank's and its inputs' times. So ranks are taken in any order in
// which inputs are known; each goes on until one is not. A directed link is fed by one rank, in the
// order of its list, so its queue is known there too.
class InOrder {
 public:
  InOrder(const Program& program, const SimulationOptions& options)
      : program_(program),
        options_(options),
        workload_(program, options),
        links_(options),
        is_sync_(options.communication == Communication::kSync),
        keeps_arrivals_(is_sync_ || !links_.empty()),
        left_(workload_.cell_count(), program.forward_only, kNotYet),
        arrived_(keeps_arrivals_ ? workload_.cell_count() : 0, program.forward_only, kNotYet),
        origin_(workload_.cell_count(), program.forward_only, 0),
        ranks_(workload_.rank_count()),
        causes_(workload_.rank_count()) {
    result_.busy.assign(workload_.rank_count(), 0);
    result_.oversubscribed.assign(workload_.rank_count(), 0);
    result_.idle_causes.resize(workload_.rank_count());
    result_.timeline.resize(workload_.rank_count());
  }

  Simulation run() {
    for (std::int32_t r = program_.ranks; r-- > 0;) {
      const std::size_t actions = workload_.compute_count(Rank{r});
      result_.timeline[Rank{r}.index()].reserve(actions);
      causes_[Rank{r}.index()].reserve(actions);
      runnable_.push_back(Rank{r});
    }
    while (!runnable_.empty()) {
      const Rank rank = runnable_.back();
      runnable_.pop_back();
      while (advance(rank)) continue;
    }
    HEADRACE_CHECK(finished_ == program_.ranks, "the program deadlocks; validate it first",
                   program_.schedule, finished_, program_.ranks);
    double computed = 0;
    for (const std::vector<SimulatedAction>& timeline : result_.timeline)
      if (!timeline.empty()) computed = std::max(computed, timeline.back().end);
    summarize({options_.step_end, options_.step_end, computed}, &result_);
    trace_path(computed);
    return std::move(result_);
  }

 private:
  struct RankState {
    std::size_t cursor = 0;
    double free = 0;  // no block and no transfer of its own from then on
    Waiting waiting;
    Message awaited;
  };
  // When an input left its producer, and when it is on the consumer's rank.
  struct Input {
    double left = 0;
    double time = 0;
  };

  // One block of the rank; false when it has none or an input is not known yet.
  bool advance(Rank rank) {
    RankState& state = ranks_[rank.index()];
    std::size_t cursor = state.cursor;
    const Block block = workload_.next_block(rank, &cursor);
    if (block.first == nullptr) {
      ++finished_;
      return false;
    }
    Input input;
    if (!take_input(*block.first, rank, &input)) return false;
    Cause cause = input.time > state.free ? Cause::kFirstInput : Cause::kPrevious;
    if (block.second != nullptr) {
      Input second;
      if (!take_input(*block.second, rank, &second)) return false;
      if (second.time > input.time) {
        input = second;
        if (input.time > state.free) cause = Cause::kSecondInput;
      }
    }
    state.cursor = cursor;
    compute(rank, block, input, cause);
    return true;
  }

  bool take_input(const Action& action, Rank rank, Input* input) {
    const Message message = workload_.input_of(action, rank);
    if (!message.exists) return true;
    input->left = left_[message];
    if (input->left == kNotYet) {
      ranks_[rank.index()].awaited = message;
      return false;
    }
    if (message.from == rank)
      input->time = input->left;
    else
      input->time = keeps_arrivals_ ? arrived_[message] : input->left + options_.hop;
    return true;
  }

  void compute(Rank rank, const Block& block, const Input& input, Cause cause) {
    RankState& state = ranks_[rank.index()];
    const double start = std::max(state.free, input.time);
    const double end = start + block.duration;
    state.waiting.start(start, state.free, input.left, &result_.idle_causes[rank.index()]);
    state.waiting.last_end = state.free = end;
    result_.busy[rank.index()] += block.duration;
    std::vector<SimulatedAction>& timeline = result_.timeline[rank.index()];
    const auto index = static_cast<std::uint32_t>(timeline.size());
    timeline.push_back({*block.first, start, end});
    causes_[rank.index()].push_back(cause);
    if (block.second != nullptr) {
      timeline.push_back({*block.second, start, end});
      causes_[rank.index()].push_back(cause);
    }
    send(*block.first, rank, index, start + block.first_leaves);
    if (block.second != nullptr) send(*block.second, rank, index, start + block.second_leaves);
  }

  void send(const Action& action, Rank rank, std::uint32_t index, double leaves) {
    const Message message = workload_.output_of(action, rank);
    if (!message.exists) return;
    RankState& state = ranks_[rank.index()];
    origin_[message] = index;
    if (message.to != rank && is_sync_) {
      leaves = state.waiting.last_end;
      state.free += links_.transfer_time(message);
      arrived_[message] = state.free;
    } else if (message.to != rank && keeps_arrivals_) {
      arrived_[message] = move(message, index, leaves);
    }
    left_[message] = leaves;
    RankState& consumer = ranks_[message.to.index()];
    if (!consumer.awaited.exists || consumer.awaited.cell != message.cell ||
        consumer.awaited.is_forward != message.is_forward)
      return;
    consumer.awaited.exists = false;
    if (message.to != rank) runnable_.push_back(message.to);
  }

  // The arrival over a link that may still be moving the messages before.
  double move(const Message& message, std::uint32_t index, double leaves) {
    Link* link = links_.find(message.from, message.to);
    if (link == nullptr) return leaves + options_.hop;
    if (leaves >= link->free_at) link->origin = index;
    origin_[message] = link->origin;
    link->free_at = std::max(leaves, link->free_at) + links_.moving_time(*link, message);
    return link->free_at + link->latency;
  }

  void trace_path(double computed) {
    std::size_t rank = 0;
    for (std::size_t r = workload_.rank_count(); r-- > 0;)
      if (!result_.timeline[r].empty() && result_.timeline[r].back().end == computed) rank = r;
    if (result_.timeline[rank].empty()) return;
    append_step_end(options_.step_end, computed, &result_);
    std::size_t index = result_.timeline[rank].size() - 1;
    for (;;) {
      const std::vector<SimulatedAction>& timeline = result_.timeline[rank];
      const bool is_second = index > 0 && timeline[index - 1].action.overlaps_next;
      if (is_second) --index;
      const SimulatedAction& block = timeline[index];
      const Cause cause = causes_[rank][index];
      const Action& cause_of =
          cause == Cause::kSecondInput ? timeline[index + 1].action : block.action;
      result_.critical_path.push_back(
          {Rank{static_cast<std::int32_t>(rank)}, cause_of, block.start, block.end});
      if (cause == Cause::kPrevious) {
        if (index == 0) break;
        --index;
        continue;
      }
      const Message message = workload_.input_of(cause_of, Rank{static_cast<std::int32_t>(rank)});
      rank = message.from.index();
      index = origin_[message];
    }
    std::reverse(result_.critical_path.begin(), result_.critical_path.end());
  }

  const Program& program_;
  const SimulationOptions& options_;
  const Workload workload_;
  Links links_;
  const bool is_sync_;
  const bool keeps_arrivals_;
  PerMessage<double> left_;
  PerMessage<double> arrived_;
  PerMessage<std::uint32_t> origin_;  // the block on the sender's rank that set its arrival
  std::vector<RankState> ranks_;
  std::vector<std::vector<Cause>> causes_;  // [rank], beside the timeline
  std::vector<Rank> runnable_;
  std::int32_t finished_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate_in_order(const Program& program, const SimulationOptions& options) {
  return InOrder(program, options).run();
}

}  // namespace headrace::schedules::detail
