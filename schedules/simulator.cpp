#include "schedules/simulator.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

namespace headrace::schedules {
namespace {

constexpr double kNotYet = -1;
constexpr double kNever = std::numeric_limits<double>::infinity();

struct Event {
  double time = 0;
  Rank rank;
  auto operator<=>(const Event&) const = default;  // ties by rank, so that runs repeat exactly
};
using EventQueue = std::priority_queue<Event, std::vector<Event>, std::greater<>>;

// [Note: processor sharing in virtual time] Ranks that compute at the same moment get equal shares
// of the cores, as equal threads do under the operating system's fair scheduler. With n of them,
// work proceeds at rate min(1, cores / n); virtual time is the integral of that rate, so an action
// that starts at virtual time v with need d ends at v + d, however n changes meanwhile.
class Simulator {
 public:
  Simulator(const Program& program, const SimulationOptions& options)
      : program_(program),
        options_(options),
        is_shared_(options.cores > 0 && options.cores < program.ranks),
        next_(rank_count(), 0),
        is_waiting_(rank_count(), false),
        has_computed_(rank_count(), false),
        started_(rank_count(), 0),
        ended_(rank_count(), 0),
        forward_end_(cell_count(), kNotYet),
        gradient_end_(cell_count(), kNotYet) {
    result_.busy.assign(rank_count(), 0);
    result_.oversubscribed.assign(rank_count(), 0);
    result_.timeline.resize(rank_count());
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
    summarize();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::size_t rank_count() const { return static_cast<std::size_t>(program_.ranks); }
  [[nodiscard]] std::size_t cell_count() const {
    return static_cast<std::size_t>(program_.stages) *
           static_cast<std::size_t>(program_.microbatches);
  }
  [[nodiscard]] std::size_t at(StageIndex stage, MicrobatchIndex m) const {
    return stage.index() * static_cast<std::size_t>(program_.microbatches) + m.index();
  }
  [[nodiscard]] double rate() const {
    if (!is_shared_ || running_ <= options_.cores) return 1;
    return static_cast<double>(options_.cores) / static_cast<double>(running_);
  }
  [[nodiscard]] double real_time(double virtual_end) const {
    return is_shared_ ? now_ + std::max(0.0, virtual_end - virtual_now_) / rate() : virtual_end;
  }

  [[nodiscard]] double duration(const Action& action) const {
    static constexpr StageCost kUnit{};
    const StageCost& cost = options_.stages.empty()       ? kUnit
                            : options_.stages.size() == 1 ? options_.stages.front()
                                                          : options_.stages[action.stage.index()];
    switch (action.kind) {
      case ActionKind::kForward:
        return cost.forward;
      case ActionKind::kBackwardInput:
        return cost.backward_input;
      case ActionKind::kBackwardWeight:
        return cost.backward_weight;
      default:
        return cost.backward_input + cost.backward_weight;
    }
  }

  // When the input of `action` is on its rank, or kNotYet.
  [[nodiscard]] double input_time(const Action& action, Rank rank) const {
    const bool is_forward = action.kind == ActionKind::kForward;
    const StageIndex source{action.stage.value + (is_forward ? -1 : 1)};
    if (action.kind == ActionKind::kBackwardWeight) return 0;
    if (source.value < 0 || source.value >= program_.stages) return 0;
    const double end = (is_forward ? forward_end_ : gradient_end_)[at(source, action.microbatch)];
    if (end == kNotYet) return kNotYet;
    return program_.rank_of(source, action.microbatch) == rank ? end : end + options_.hop;
  }

  [[nodiscard]] const Action* current(Rank rank) {
    const std::vector<Action>& list = program_.actions[rank.index()];
    std::size_t& next = next_[rank.index()];
    while (next < list.size() && !is_compute(list[next].kind)) ++next;
    return next < list.size() ? &list[next] : nullptr;
  }

  void begin_next(Rank rank) {
    const Action* action = current(rank);
    if (action == nullptr) return finish_compute(rank);
    const double ready = input_time(*action, rank);
    is_waiting_[rank.index()] = ready == kNotYet;
    if (ready == kNotYet) return;
    if (ready > now_)
      arrivals_.push({ready, rank});
    else
      start(rank, duration(*action));
  }

  void start(Rank rank, double need) {
    started_[rank.index()] = now_;
    result_.busy[rank.index()] += need;
    ++running_;
    completions_.push({(is_shared_ ? virtual_now_ : now_) + need, rank});
  }

  void arrive_first(double time) {
    const Rank rank = arrivals_.top().rank;
    arrivals_.pop();
    virtual_now_ += (time - now_) * rate();
    now_ = time;
    start(rank, duration(*current(rank)));
  }

  void complete_first(double time) {
    const Event done = completions_.top();
    completions_.pop();
    virtual_now_ = done.time;
    now_ = time;
    --running_;
    ended_[done.rank.index()] = now_;
    const Action* action = current(done.rank);
    if (action == nullptr) {  // the step's end
      ++finished_;
      return;
    }
    result_.timeline[done.rank.index()].push_back({*action, started_[done.rank.index()], now_});
    ++next_[done.rank.index()];
    publish(*action);
    begin_next(done.rank);
  }

  void publish(const Action& action) {
    const bool is_forward = action.kind == ActionKind::kForward;
    if (action.kind == ActionKind::kBackwardWeight) return;
    (is_forward ? forward_end_ : gradient_end_)[at(action.stage, action.microbatch)] = now_;
    const StageIndex consumer{action.stage.value + (is_forward ? 1 : -1)};
    if (consumer.value < 0 || consumer.value >= program_.stages) return;
    const Rank rank = program_.rank_of(consumer, action.microbatch);
    if (is_waiting_[rank.index()]) begin_next(rank);
  }

  // The last rank to finish opens the step's end of all: a commit needs every rank's norm.
  void finish_compute(Rank rank) {
    HEADRACE_CHECK(!has_computed_[rank.index()], "a rank finished twice", rank.value);
    has_computed_[rank.index()] = true;
    if (options_.step_end.empty()) {
      ++finished_;
      return;
    }
    if (++at_step_end_ < program_.ranks) return;
    for (std::int32_t r = 0; r < program_.ranks; ++r)
      start(Rank{r}, options_.step_end[Rank{r}.index()]);
  }

  void summarize() {
    double busy_sum = 0;
    double span_max = 0;
    for (std::size_t r = 0; r < rank_count(); ++r) {
      busy_sum += result_.busy[r];
      result_.makespan = std::max(result_.makespan, ended_[r]);
      if (result_.timeline[r].empty()) continue;
      span_max = std::max(span_max, ended_[r] - result_.timeline[r].front().start);
    }
    for (std::size_t r = 0; r < rank_count(); ++r) {
      if (is_shared_) result_.oversubscribed[r] = wall_time(r) - result_.busy[r];
      result_.idle.push_back(result_.makespan - result_.busy[r] - result_.oversubscribed[r]);
    }
    const double mean_busy = busy_sum / static_cast<double>(program_.ranks);
    if (result_.makespan > 0) result_.bubble_global = 1 - mean_busy / result_.makespan;
    if (span_max > 0) result_.bubble_span = 1 - mean_busy / span_max;
  }

  // From start to end of everything the rank did, its waits for inputs left out.
  [[nodiscard]] double wall_time(std::size_t rank) const {
    double sum = options_.step_end.empty() ? 0 : ended_[rank] - started_[rank];
    for (const SimulatedAction& action : result_.timeline[rank]) sum += action.end - action.start;
    return sum;
  }

  const Program& program_;
  const SimulationOptions& options_;
  const bool is_shared_;

  double now_ = 0;
  double virtual_now_ = 0;  // see [Note: processor sharing in virtual time]
  std::int32_t running_ = 0;
  std::int32_t finished_ = 0;
  std::int32_t at_step_end_ = 0;
  EventQueue arrivals_;     // real time
  EventQueue completions_;  // virtual time where cores are shared, else real time
  std::vector<std::size_t> next_;
  std::vector<bool> is_waiting_;
  std::vector<bool> has_computed_;
  std::vector<double> started_;
  std::vector<double> ended_;
  std::vector<double> forward_end_;
  std::vector<double> gradient_end_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Program& program, const SimulationOptions& options) {
  HEADRACE_CHECK(options.stages.size() <= 1 ||
                     options.stages.size() == static_cast<std::size_t>(program.stages),
                 "one cost for all stages or one for each", options.stages.size(), program.stages);
  HEADRACE_CHECK(options.step_end.empty() ||
                     options.step_end.size() == static_cast<std::size_t>(program.ranks),
                 "one step end per rank", options.step_end.size(), program.ranks);
  return Simulator(program, options).run();
}

}  // namespace headrace::schedules
