#include "schedules/detail/search_moves.hpp"

#include <algorithm>
#include <cstddef>

namespace headrace::schedules::detail {
namespace {

// Weight of what the objective does not see: without it most shifts change nothing, because one
// rank alone has the largest span.
constexpr double kMeanShare = 0.2;
constexpr double kMakespanShare = 0.02;
constexpr double kThresholdStart = 0.5;  // in mean durations
constexpr std::int32_t kReach = 12;      // a shift passes at most this many actions

// splitmix64; the standard's distributions are not the same everywhere.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::int32_t below(std::int32_t count) {
    return static_cast<std::int32_t>((next() >> 33U) % static_cast<std::uint64_t>(count));
  }

 private:
  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }

  std::uint64_t state_;
};

// The action at column `from` goes to column `to`; those between move by one.
struct Shift {
  Rank rank;
  std::int32_t from = 0;
  std::int32_t to = 0;
};

void shift_list(const Shift& shift, std::vector<Node>* list) {
  const auto at = [&](std::int32_t column) { return list->begin() + column; };
  if (shift.from > shift.to)
    std::rotate(at(shift.to), at(shift.from), at(shift.from + 1));
  else
    std::rotate(at(shift.from), at(shift.from + 1), at(shift.to + 1));
}

double price(const Score& score) {
  return score.span + kMeanShare * score.mean_span + kMakespanShare * score.makespan;
}

class LocalSearch {
 public:
  LocalSearch(const SearchModel& model, std::uint64_t seed, Orders* orders)
      : model_(model), dice_(seed), evaluator_(model), orders_(*orders), best_(*orders) {
    evaluator_.set_all_slots(orders_);
    best_score_ = evaluator_.run(orders_);
    current_ = price(best_score_);
    evaluator_.critical_chain(orders_, &chain_);
  }

  Score run(std::int64_t tries) {
    double mean_duration = 0;
    for (std::int32_t s = 0; s < model_.stages(); ++s)
      mean_duration +=
          model_.cost(s).forward + model_.cost(s).backward_input + model_.cost(s).backward_weight;
    mean_duration /= 3 * model_.stages();
    const double threshold = kThresholdStart * mean_duration;
    for (std::int64_t i = 0; i < tries; ++i) {
      if (best_score_.span <= model_.work_max()) break;  // nothing is left to gain
      const double left = 1 - static_cast<double>(i) / static_cast<double>(tries);
      attempt(threshold * left * left);
    }
    orders_ = best_;
    return best_score_;
  }

 private:
  void attempt(double threshold) {
    Shift shift;
    if (!draw(&shift)) return;
    std::vector<Node>& list = orders_[shift.rank.index()];
    shift_list(shift, &list);
    if (model_.fits(list)) {
      evaluator_.set_slots(orders_, shift.rank);
      if (accept(threshold)) return;
    }
    shift_list({shift.rank, shift.to, shift.from}, &list);
    evaluator_.set_slots(orders_, shift.rank);
  }

  bool accept(double threshold) {
    const Score score = evaluator_.run(orders_);
    const double value = price(score);
    if (!(value <= current_ + threshold)) return false;
    current_ = value;
    evaluator_.critical_chain(orders_, &chain_);
    if (score.is_better_than(best_score_)) {
      best_score_ = score;
      best_ = orders_;
    }
    return true;
  }

  // A node of the critical chain three times in four, else any; moved towards the front, or, as
  // often, the one before it moved towards the end.
  bool draw(Shift* shift) {
    Node node =
        chain_[static_cast<std::size_t>(dice_.below(static_cast<std::int32_t>(chain_.size())))];
    if (dice_.below(4) == 0) node = dice_.below(static_cast<std::int32_t>(model_.node_count()));
    shift->rank = model_.rank_of(model_.facts(node).stage);
    const std::vector<Node>& list = orders_[shift->rank.index()];
    const auto found = std::find(list.begin(), list.end(), node);
    shift->from = static_cast<std::int32_t>(found - list.begin());
    const bool goes_back = dice_.below(2) == 0;
    if (goes_back && --shift->from < 0) return false;
    const std::int32_t distance = 1 + dice_.below(1 + dice_.below(kReach));
    shift->to = reach(list, shift->from, goes_back ? distance : -distance);
    return shift->to != shift->from;
  }

  // The column nearest to from + distance that the action can take.
  [[nodiscard]] std::int32_t reach(const std::vector<Node>& list, std::int32_t from,
                                   std::int32_t distance) const {
    const Node moved = list[static_cast<std::size_t>(from)];
    const std::int32_t step = distance > 0 ? 1 : -1;
    const auto size = static_cast<std::int32_t>(list.size());
    std::int32_t to = from;
    for (; distance != 0; distance -= step, to += step) {
      if (to + step < 0 || to + step >= size) break;
      const Node passed = list[static_cast<std::size_t>(to + step)];
      if (step > 0 ? model_.is_ordered(moved, passed) : model_.is_ordered(passed, moved)) break;
    }
    return to;
  }

  const SearchModel& model_;
  Dice dice_;
  Evaluator evaluator_;
  Orders& orders_;
  Orders best_;
  Score best_score_;
  double current_ = kNoTime;
  std::vector<Node> chain_;
};

}  // namespace

Score improve(const SearchModel& model, std::int64_t tries, std::uint64_t seed, Orders* orders) {
  return LocalSearch(model, seed, orders).run(tries);
}

}  // namespace headrace::schedules::detail
