#include "schedules/detail/search_model.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace headrace::schedules::detail {
namespace {

constexpr double kNotRun = -1;
constexpr std::int64_t kActivation = 1'000'000;  // whole numbers, so that sums are exact

ActionKind kind_of(Part part) {
  switch (part) {
    case Part::kForward:
      return ActionKind::kForward;
    case Part::kInput:
      return ActionKind::kBackwardInput;
    case Part::kWeight:
      return ActionKind::kBackwardWeight;
  }
  HEADRACE_CHECK(false, "unknown part", static_cast<int>(part));
  return ActionKind::kForward;
}

double duration_of(const StageCost& cost, Part part) {
  if (part == Part::kForward) return cost.forward;
  return part == Part::kInput ? cost.backward_input : cost.backward_weight;
}

}  // namespace

SearchModel::SearchModel(const Program& shape, const SearchGoal& goal)
    : shape_(shape),
      measure_(goal.measure),
      memory_limit_(kActivation * goal.activation_limit),
      hop_(goal.hop) {
  const std::int64_t at_input =
      std::llround(goal.released_at_input * static_cast<double>(kActivation));
  memory_ = {kActivation, -at_input, at_input - kActivation};
  for (std::vector<Action>& list : shape_.actions) list.clear();
  // In a V each boundary has a link of its own; chunks 0 and 2 of longer zigzags share one.
  const std::int32_t alone = shape_.placement == Placement::kVShape ? 2 : 1;
  shares_links_ = shape_.chunks > alone && shape_.ranks > 1;
  const auto stage_count = static_cast<std::size_t>(shape_.stages);
  if (goal.stages.size() == stage_count)
    costs_ = goal.stages;
  else
    costs_.assign(stage_count, goal.stages.empty() ? StageCost{} : goal.stages.front());

  rank_stages_.resize(static_cast<std::size_t>(shape_.ranks));
  std::vector<double> work(rank_stages_.size(), 0);
  for (std::int32_t s = 0; s < shape_.stages; ++s) {
    const std::size_t rank = rank_of(s).index();
    rank_stages_[rank].push_back(s);
    work[rank] += cost(s).forward + cost(s).backward_input + cost(s).backward_weight;
  }
  work_max_ = *std::max_element(work.begin(), work.end()) * shape_.microbatches;

  nodes_.reserve(3 * stage_count * static_cast<std::size_t>(shape_.microbatches));
  for (std::int32_t s = 0; s < shape_.stages; ++s) {
    const bool is_last = s + 1 == shape_.stages;
    const auto latency = [&](std::int32_t from) { return rank_of(from) == rank_of(s) ? 0 : hop_; };
    NodeFacts forward{-1, s, is_last ? Rank{-1} : rank_of(s + 1), 0,
                      duration_of(cost(s), Part::kForward)};
    if (s > 0) forward.latency = latency(s - 1);
    NodeFacts input{-1, s, s > 0 ? rank_of(s - 1) : Rank{-1}, is_last ? 0 : latency(s + 1),
                    duration_of(cost(s), Part::kInput)};
    NodeFacts weight{-1, s, Rank{-1}, 0, duration_of(cost(s), Part::kWeight)};
    for (std::int32_t m = 0; m < shape_.microbatches; ++m) {
      if (s > 0) forward.source = node(Part::kForward, s - 1, m);
      input.source = is_last ? node(Part::kForward, s, m) : node(Part::kInput, s + 1, m);
      weight.source = node(Part::kInput, s, m);
      nodes_.insert(nodes_.end(), {forward, input, weight});
    }
  }
}

bool SearchModel::fits(const std::vector<Node>& list) const {
  std::int64_t held = 0;
  for (const Node node : list) {
    held += memory_of(part_of(node));
    if (held > memory_limit_) return false;
  }
  return true;
}

Orders SearchModel::orders_of(const Program& program) const {
  Orders orders(program.actions.size());
  for (std::size_t r = 0; r < orders.size(); ++r) {
    for (const Action& action : program.actions[r]) {
      const auto add = [&](Part part) {
        orders[r].push_back(node(part, action.stage.value, action.microbatch.value));
      };
      if (action.kind == ActionKind::kForward) add(Part::kForward);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput)
        add(Part::kInput);
      if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
        add(Part::kWeight);
    }
  }
  return orders;
}

Program SearchModel::program_of(const Orders& orders) const {
  Program program = shape_;
  for (std::size_t r = 0; r < orders.size(); ++r) {
    program.actions[r].reserve(orders[r].size());
    for (const Node node : orders[r]) {
      const std::int32_t cell = node / 3;
      program.actions[r].push_back(
          make_action(kind_of(part_of(node)), cell / microbatches(), cell % microbatches()));
    }
  }
  return program;
}

Evaluator::Evaluator(const SearchModel& model)
    : model_(model),
      ends_(model.node_count()),
      columns_(model.node_count()),
      next_(static_cast<std::size_t>(model.ranks())),
      awaited_(next_.size()),
      now_(next_.size()),
      first_blocked_(static_cast<std::size_t>(model.stages()), std::numeric_limits<Node>::max()),
      lead_(first_blocked_.size(), 0),
      in_flight_(first_blocked_.size(), 0),
      peaks_(first_blocked_.size(), 0) {
  awake_.reserve(next_.size() + 1);
}

void Evaluator::set_slots(const Orders& orders, Rank rank) {
  const auto at = [](std::int32_t s) { return static_cast<std::size_t>(s); };
  for (const std::int32_t s : model_.stages_on(rank)) in_flight_[at(s)] = peaks_[at(s)] = 0;
  for (const Node node : orders[rank.index()]) {
    const std::size_t s = at(model_.facts(node).stage);
    if (node % 3 == 0) peaks_[s] = std::max(peaks_[s], ++in_flight_[s]);
    if (node % 3 == 1) --in_flight_[s];
  }
  for (const std::int32_t s : model_.stages_on(rank)) {
    if (s == 0 || model_.rank_of(s - 1) == rank) continue;  // by order alone
    const std::int32_t slots = std::max(2, peaks_[at(s)] + 1);
    const std::size_t below = at(s - 1);
    first_blocked_[below] = slots < model_.microbatches()
                                ? model_.node(Part::kForward, s - 1, slots)
                                : std::numeric_limits<Node>::max();
    lead_[below] = 3 * (model_.microbatches() - slots) + 1;
  }
}

void Evaluator::set_all_slots(const Orders& orders) {
  for (std::int32_t r = 0; r < model_.ranks(); ++r) set_slots(orders, Rank{r});
}

Score Evaluator::run(const Orders& orders) {
  std::fill(ends_.begin(), ends_.end(), kNotRun);
  std::fill(next_.begin(), next_.end(), 0);
  std::fill(awaited_.begin(), awaited_.end(), -1);
  std::fill(now_.begin(), now_.end(), 0.0);
  for (std::int32_t r = model_.ranks(); r-- > 0;) awake_.push_back(Rank{r});
  while (!awake_.empty()) {
    const Rank rank = awake_.back();
    awake_.pop_back();
    advance(orders, rank);
  }
  return score(orders);
}

void Evaluator::advance(const Orders& orders, Rank rank) {
  const std::vector<Node>& list = orders[rank.index()];
  auto next = static_cast<std::size_t>(next_[rank.index()]);
  double now = now_[rank.index()];
  awaited_[rank.index()] = -1;
  for (; next < list.size(); ++next) {
    const Node node = list[next];
    const NodeFacts& facts = model_.facts(node);
    if (facts.source >= 0) {
      const double source_end = ends_[static_cast<std::size_t>(facts.source)];
      if (source_end < 0) {
        awaited_[rank.index()] = facts.source;
        break;
      }
      now = std::max(now, source_end + facts.latency);
    }
    if (const Node freed_by = slot_source(node, facts); freed_by >= 0) {
      if (end_of(freed_by) < 0) {
        awaited_[rank.index()] = freed_by;
        break;
      }
    }
    now += facts.duration;
    ends_[static_cast<std::size_t>(node)] = now;
    columns_[static_cast<std::size_t>(node)] = static_cast<std::int32_t>(next);
    if (facts.consumer_rank.value >= 0 && awaited_[facts.consumer_rank.index()] == node) {
      awaited_[facts.consumer_rank.index()] = -1;
      awake_.push_back(facts.consumer_rank);
    }
  }
  next_[rank.index()] = static_cast<std::int32_t>(next);
  now_[rank.index()] = now;
}

Score Evaluator::score(const Orders& orders) {
  Score score{0, 0, 0};
  for (std::size_t r = 0; r < orders.size(); ++r) {
    if (static_cast<std::size_t>(next_[r]) < orders[r].size()) return Score{};
    const Node first = orders[r].front();
    const double start =
        model_.measure() == SearchMeasure::kGlobal
            ? 0
            : ends_[static_cast<std::size_t>(first)] - model_.facts(first).duration;
    const double span = now_[r] - start;
    if (span > score.span) {
      score.span = span;
      worst_ = Rank{static_cast<std::int32_t>(r)};
    }
    score.makespan = std::max(score.makespan, now_[r]);
    score.mean_span += span;
  }
  score.mean_span /= static_cast<double>(orders.size());
  return score;
}

void Evaluator::critical_chain(const Orders& orders, std::vector<Node>* chain) const {
  chain->clear();
  Node node = orders[worst_.index()].back();
  while (node >= 0) {
    chain->push_back(node);
    const NodeFacts& facts = model_.facts(node);
    const std::int32_t column = columns_[static_cast<std::size_t>(node)];
    double latest = kNotRun;
    Node cause = -1;
    const auto consider = [&](Node candidate, double time) {
      if (candidate >= 0 && time > latest) {
        latest = time;
        cause = candidate;
      }
    };
    if (column > 0) {
      const std::vector<Node>& list = orders[model_.rank_of(facts.stage).index()];
      const Node before = list[static_cast<std::size_t>(column) - 1];
      consider(before, end_of(before));
    }
    if (facts.source >= 0) consider(facts.source, end_of(facts.source) + facts.latency);
    node = cause;
  }
}

}  // namespace headrace::schedules::detail
