// Fewer cores than ranks, kOverlap.
#include "schedules/detail/simulation.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>

namespace headrace::schedules::detail {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

struct Event {
  double time = 0;
  Rank rank;
  auto operator<=>(const Event&) const = default;  // ties by rank, so that runs repeat exactly
};
using EventQueue = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

// A part of a block: after it, up to two outputs leave.
struct Piece {
  double need = 0;
  std::array<const Action*, 2> outputs{};
};

// [Note: processor sharing in virtual time] Ranks that compute at the same moment get equal shares
// of the cores, as equal threads do under the operating system's fair scheduler. With n of them,
// work proceeds at rate min(1, cores / n); virtual time is the integral of that rate, so a piece
// that starts at virtual time v with need d ends at v + d, however n changes meanwhile.
class SharedCores {
 public:
  SharedCores(const Program& program, const SimulationOptions& options)
      : program_(program),
        options_(options),
        workload_(program, options),
        left_(workload_.cell_count(), program.forward_only, kNotYet),
        ranks_(workload_.rank_count()) {
    result_.busy.assign(workload_.rank_count(), 0);
    result_.oversubscribed.assign(workload_.rank_count(), 0);
    result_.idle_causes.resize(workload_.rank_count());
    result_.timeline.resize(workload_.rank_count());
  }

  Simulation run() {
    for (std::int32_t r = 0; r < program_.ranks; ++r) begin_next(Rank{r});
    for (;;) {
      const double arrival = arrivals_.empty() ? kNever : arrivals_.top().time;
      const double completion = completions_.empty() ? kNever : real_time(completions_.top().time);
      if (arrival == kNever && completion == kNever) break;
      if (completion <= arrival)
        complete_first(completion);
      else
        arrive_first(arrival);
    }
    HEADRACE_CHECK(finished_ == program_.ranks, "the program deadlocks; validate it first",
                   program_.schedule, finished_, program_.ranks);
    finish();
    return std::move(result_);
  }

 private:
  struct RankState {
    std::size_t cursor = 0;
    Block block;
    std::array<Piece, 3> pieces;
    std::size_t piece_count = 0;
    std::size_t piece = 0;
    bool is_waiting = false;
    bool has_computed = false;
    double left = 0;     // when the last input of the block left its producer
    double started = 0;  // of the block, or of the step's end
    double ended = 0;
    Waiting waiting;
  };

  [[nodiscard]] double rate() const {
    if (running_ <= options_.cores) return 1;
    return static_cast<double>(options_.cores) / static_cast<double>(running_);
  }
  [[nodiscard]] double real_time(double virtual_end) const {
    return now_ + std::max(0.0, virtual_end - virtual_now_) / rate();
  }

  // When the inputs of the block are on its rank, or kNotYet.
  double input_time(Rank rank) {
    RankState& state = ranks_[rank.index()];
    double latest = 0;
    state.left = 0;
    for (const Action* action : {state.block.first, state.block.second}) {
      if (action == nullptr) continue;
      const Message message = workload_.input_of(*action, rank);
      if (!message.exists) continue;
      const double left = left_[message];
      if (left == kNotYet) return kNotYet;
      const double time = message.from == rank ? left : left + options_.hop;
      if (time >= latest) state.left = left;
      latest = std::max(latest, time);
    }
    return latest;
  }

  void begin_next(Rank rank) {
    RankState& state = ranks_[rank.index()];
    if (!state.is_waiting) {
      state.block = workload_.next_block(rank, &state.cursor);
      if (state.block.first == nullptr) return finish_compute(rank);
    }
    const double ready = input_time(rank);
    state.is_waiting = ready == kNotYet;
    if (state.is_waiting) return;
    if (ready > now_)
      arrivals_.push({ready, rank});
    else
      start_block(rank);
  }

  // Cuts the block where its outputs leave.
  void cut(RankState* state) const {
    const Block& block = state->block;
    state->piece_count = state->piece = 0;
    double done = 0;
    const auto cut_at = [&](double time, const Action* output) {
      Piece& last = state->pieces[state->piece_count == 0 ? 0 : state->piece_count - 1];
      if (state->piece_count > 0 && time <= done) {
        last.outputs[1] = output;
        return;
      }
      state->pieces[state->piece_count++] = {time - done, {output, nullptr}};
      done = time;
    };
    cut_at(block.first_leaves, block.first);
    if (block.second != nullptr) cut_at(block.second_leaves, block.second);
    if (done < block.duration) cut_at(block.duration, nullptr);
  }

  void start_block(Rank rank) {
    RankState& state = ranks_[rank.index()];
    cut(&state);
    state.waiting.start(now_, state.waiting.last_end, state.left,
                        &result_.idle_causes[rank.index()]);
    state.started = now_;
    result_.busy[rank.index()] += state.block.duration;
    start(rank, state.pieces[0].need);
  }

  void start(Rank rank, double need) {
    ++running_;
    completions_.push({virtual_now_ + need, rank});
  }

  void arrive_first(double time) {
    const Rank rank = arrivals_.top().rank;
    arrivals_.pop();
    virtual_now_ += (time - now_) * rate();
    now_ = time;
    start_block(rank);
  }

  void complete_first(double time) {
    const Event done = completions_.top();
    completions_.pop();
    virtual_now_ = done.time;
    now_ = time;
    --running_;
    RankState& state = ranks_[done.rank.index()];
    state.ended = now_;
    if (state.has_computed) {  // the step's end
      ++finished_;
      return;
    }
    const Piece piece = state.pieces[state.piece++];
    for (const Action* output : piece.outputs)
      if (output != nullptr) publish(*output, done.rank);
    if (state.piece < state.piece_count) {
      start(done.rank, state.pieces[state.piece].need);
      return;
    }
    complete_block(done.rank);
  }

  void complete_block(Rank rank) {
    RankState& state = ranks_[rank.index()];
    state.waiting.last_end = now_;
    std::vector<SimulatedAction>& timeline = result_.timeline[rank.index()];
    for (const Action* action : {state.block.first, state.block.second})
      if (action != nullptr) timeline.push_back({*action, state.started, now_});
    result_.oversubscribed[rank.index()] += now_ - state.started;
    begin_next(rank);
  }

  void publish(const Action& action, Rank from) {
    const Message message = workload_.output_of(action, from);
    if (!message.exists) return;
    left_[message] = now_;
    if (ranks_[message.to.index()].is_waiting) begin_next(message.to);
  }

  // The last rank to finish opens the step's end of all: a commit needs every rank's norm.
  void finish_compute(Rank rank) {
    HEADRACE_CHECK(!ranks_[rank.index()].has_computed, "a rank finished twice", rank.value);
    ranks_[rank.index()].has_computed = true;
    if (options_.step_end.empty()) {
      ++finished_;
      return;
    }
    if (++at_step_end_ < program_.ranks) return;
    for (std::int32_t r = 0; r < program_.ranks; ++r) {
      ranks_[Rank{r}.index()].started = now_;
      start(Rank{r}, options_.step_end[Rank{r}.index()]);
    }
  }

  void finish() {
    double computed = 0;
    for (const RankState& state : ranks_) computed = std::max(computed, state.waiting.last_end);
    std::vector<double> wall(options_.step_end.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      // So far the wall time of its blocks; what they needed of that is in busy.
      result_.oversubscribed[r] -= result_.busy[r];
      if (wall.empty()) continue;
      wall[r] = ranks_[r].ended - ranks_[r].started;
      result_.oversubscribed[r] += wall[r] - options_.step_end[r];
    }
    summarize({options_.step_end, wall, computed}, &result_);
  }

  const Program& program_;
  const SimulationOptions& options_;
  const Workload workload_;
  PerMessage<double> left_;
  std::vector<RankState> ranks_;

  double now_ = 0;
  double virtual_now_ = 0;  // see [Note: processor sharing in virtual time]
  std::int32_t running_ = 0;
  std::int32_t finished_ = 0;
  std::int32_t at_step_end_ = 0;
  EventQueue arrivals_;     // real time
  EventQueue completions_;  // virtual time
  Simulation result_;
};

}  // namespace

Simulation simulate_shared(const Program& program, const SimulationOptions& options) {
  return SharedCores(program, options).run();
}

}  // namespace headrace::schedules::detail
