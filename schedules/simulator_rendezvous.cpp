// kRendezvous with one core per rank.
#include "schedules/detail/simulation.hpp"

#include <algorithm>

namespace headrace::schedules::detail {
namespace {

struct BlockPlace {
  Rank rank{0};
  std::int32_t index = -1;  // in the timeline; -1: nothing came before
};

// [Note: batches] A rank posts what lies between two blocks at the end of the first: sends of its
// outputs and receives for the second. A transfer runs from the later of its two postings; the
// second block starts when all of the batch have. Both ends of a transfer are known once both ranks
// have come to it, in whatever order ranks are taken, so no clock is needed here either.
class Rendezvous {
 public:
  Rendezvous(const Program& program, const SimulationOptions& options)
      : program_(program),
        options_(options),
        workload_(program, options),
        links_(options),
        posted_(workload_.cell_count(), program.forward_only, kNotYet),
        ranks_(workload_.rank_count()) {
    result_.busy.assign(workload_.rank_count(), 0);
    result_.oversubscribed.assign(workload_.rank_count(), 0);
    result_.idle_causes.resize(workload_.rank_count());
    result_.timeline.resize(workload_.rank_count());
  }

  Simulation run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) {
      const std::size_t actions = workload_.compute_count(Rank{r});
      result_.timeline[Rank{r}.index()].reserve(actions);
      ranks_[Rank{r}.index()].before.reserve(actions);
      post(Rank{r}, Block{});
    }
    while (!runnable_.empty()) {
      const Rank rank = runnable_.back();
      runnable_.pop_back();
      run_block(rank);
    }
    double computed = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (!result_.timeline[r].empty())
        computed = std::max(computed, result_.timeline[r].back().end);
    result_.is_deadlocked = finished_ < program_.ranks;
    if (result_.is_deadlocked) result_.makespan = std::numeric_limits<double>::infinity();
    summarize({options_.step_end, options_.step_end, computed}, &result_);
    if (!result_.is_deadlocked) trace_path(computed);
    return std::move(result_);
  }

 private:
  struct RankState {
    std::size_t cursor = 0;
    Block next;                 // after the batch that is posted
    std::int32_t pending = 0;   // transfers of the batch
    double posted = 0;          // when the batch was
    double ready = 0;           // when its last transfer so far ends
    double partner_posted = 0;  // the later posting of that transfer
    BlockPlace cause;           // whose end set that
    Waiting waiting;
    std::vector<BlockPlace> before;  // [timeline index] what the block waited for
  };

  [[nodiscard]] BlockPlace last_block(Rank rank) const {
    return {rank, static_cast<std::int32_t>(result_.timeline[rank.index()].size()) - 1};
  }

  // The rank has computed `done`: posts the batch before its next block.
  void post(Rank rank, const Block& done) {
    RankState& state = ranks_[rank.index()];
    state.next = workload_.next_block(rank, &state.cursor);
    state.posted = state.ready = state.partner_posted = state.waiting.last_end;
    state.cause = last_block(rank);
    // All of the batch count as pending before the first completes.
    Message batch[4];
    std::size_t size = 0;
    const auto add = [&](const Message& message) {
      if (message.exists && message.from != message.to) batch[size++] = message;
    };
    for (const Action* action : {done.first, done.second})
      if (action != nullptr) add(workload_.output_of(*action, rank));
    for (const Action* action : {state.next.first, state.next.second})
      if (action != nullptr) add(workload_.input_of(*action, rank));
    state.pending = static_cast<std::int32_t>(size);
    if (size == 0) return make_runnable(rank);
    for (std::size_t i = 0; i < size; ++i) meet(batch[i], batch[i].from == rank);
  }

  // One end of a transfer has been posted; the second one to come completes it.
  void meet(const Message& message, bool is_sender) {
    const Rank self = is_sender ? message.from : message.to;
    const Rank other = is_sender ? message.to : message.from;
    if (posted_[message] == kNotYet) {
      posted_[message] = ranks_[self.index()].posted;
      return;
    }
    const Rank later = ranks_[self.index()].posted > ranks_[other.index()].posted ? self : other;
    const double begin = ranks_[later.index()].posted;
    const double end = begin + links_.transfer_time(message);
    for (const Rank rank : {self, other}) {
      RankState& state = ranks_[rank.index()];
      if (end > state.ready) {
        state.ready = end;
        state.partner_posted = begin;
        state.cause = begin > state.posted ? last_block(later) : last_block(rank);
      }
      if (--state.pending == 0) make_runnable(rank);
    }
  }

  void make_runnable(Rank rank) {
    if (ranks_[rank.index()].next.first == nullptr)
      ++finished_;
    else
      runnable_.push_back(rank);
  }

  void run_block(Rank rank) {
    RankState& state = ranks_[rank.index()];
    const Block block = state.next;
    const double start = state.ready;
    const double end = start + block.duration;
    state.waiting.start(start, state.posted, state.partner_posted,
                        &result_.idle_causes[rank.index()]);
    state.waiting.last_end = end;
    result_.busy[rank.index()] += block.duration;
    for (const Action* action : {block.first, block.second}) {
      if (action == nullptr) continue;
      result_.timeline[rank.index()].push_back({*action, start, end});
      state.before.push_back(state.cause);
    }
    post(rank, block);
  }

  void trace_path(double computed) {
    BlockPlace place;
    for (std::int32_t r = program_.ranks; r-- > 0;) {
      const std::vector<SimulatedAction>& timeline = result_.timeline[Rank{r}.index()];
      if (!timeline.empty() && timeline.back().end == computed) place = last_block(Rank{r});
    }
    if (place.index >= 0) append_step_end(options_.step_end, computed, &result_);
    while (place.index >= 0) {
      const std::vector<SimulatedAction>& timeline = result_.timeline[place.rank.index()];
      auto index = static_cast<std::size_t>(place.index);
      if (index > 0 && timeline[index - 1].action.overlaps_next) --index;
      const SimulatedAction& block = timeline[index];
      result_.critical_path.push_back({place.rank, block.action, block.start, block.end});
      place = ranks_[place.rank.index()].before[index];
    }
    std::reverse(result_.critical_path.begin(), result_.critical_path.end());
  }

  const Program& program_;
  const SimulationOptions& options_;
  const Workload workload_;
  Links links_;
  PerMessage<double> posted_;  // by the first of the two ends to come
  std::vector<RankState> ranks_;
  std::vector<Rank> runnable_;
  std::int32_t finished_ = 0;
  Simulation result_;
};

}  // namespace

Simulation simulate_rendezvous(const Program& program, const SimulationOptions& options) {
  return Rendezvous(program, options).run();
}

}  // namespace headrace::schedules::detail
