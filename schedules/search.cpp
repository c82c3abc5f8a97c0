// auto: an order for given durations, latency and memory (the idea of arXiv 2401.10241, section 3).
// List scheduling under many rules, then local search from the best of them and of the named
// schedules; what simulate() prefers is returned. See [Note: what auto minimises].
#include "schedules/search.hpp"

#include "schedules/detail/generators.hpp"
#include "schedules/detail/search_lists.hpp"
#include "schedules/detail/search_moves.hpp"
#include "schedules/passes.hpp"
#include "schedules/simulator.hpp"
#include "schedules/validator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <utility>

namespace headrace::schedules::detail {
namespace {

// Effort in actions priced, so that it depends on the problem alone. Above the last one only the
// named schedules are compared: the search would need gigabytes.
constexpr std::int64_t kListActions = 25'000'000;
constexpr std::int64_t kLists = 1000;
constexpr std::int64_t kListStep = 7919;  // a prime that divides no number of rules
constexpr std::int64_t kMoveActions = 120'000'000;
constexpr std::int64_t kTriesPerAction = 150;
constexpr std::size_t kNodesMax = 3'000'000;
constexpr std::size_t kStarts = 4;  // lists that the local search starts from
constexpr std::uint64_t kSeed = 1;
constexpr std::int32_t kEffortMax = 1000;
constexpr double kSpanTolerance = 1e-10;
constexpr double kMemoryTolerance = 1e-6;  // in activations, what the search rounds to

struct Start {
  const SearchModel* model = nullptr;
  Score score;
  Orders orders;
};

bool is_cost(double value) { return std::isfinite(value) && value >= 0; }

std::string number(double value) { return std::to_string(value); }

Status check_goal(const ScheduleSpec& spec) {
  const SearchGoal& goal = spec.search;
  const auto stage_count = static_cast<std::size_t>(spec.ranks * spec.chunks);
  if (goal.stages.size() > 1 && goal.stages.size() != stage_count)
    return refuse(spec, "the search got times for " + std::to_string(goal.stages.size()) +
                            " stages, but P x V is " + std::to_string(stage_count) +
                            "; give one entry for all stages or one for each");
  for (std::size_t s = 0; s < goal.stages.size(); ++s) {
    const StageCost& cost = goal.stages[s];
    if (is_cost(cost.forward) && is_cost(cost.backward_input) && is_cost(cost.backward_weight))
      continue;
    return refuse(spec,
                  "the times of stage " + std::to_string(s) + " are F=" + number(cost.forward) +
                      ", I=" + number(cost.backward_input) + ", W=" + number(cost.backward_weight) +
                      "; each must be a finite number of at least 0");
  }
  if (!is_cost(goal.hop))
    return refuse(spec, "the hop latency is " + number(goal.hop) +
                            "; it must be a finite number of at least 0");
  if (!(goal.released_at_input >= 0 && goal.released_at_input <= 1))
    return refuse(spec, "the share of an activation that I frees is " +
                            number(goal.released_at_input) + "; it must be from 0 to 1");
  if (goal.effort < 1 || goal.effort > kEffortMax)
    return refuse(spec, "the effort is " + std::to_string(goal.effort) + "; it must be from 1 to " +
                            std::to_string(kEffortMax));
  if (goal.activation_limit < 0 ||
      (goal.activation_limit > 0 && goal.activation_limit < spec.chunks))
    return refuse(spec,
                  "the limit is " + std::to_string(goal.activation_limit) +
                      " activations per rank, but a rank holds V = " + std::to_string(spec.chunks) +
                      " stages and a microbatch needs one activation in each before its "
                      "first gradient; set it to at least " +
                      std::to_string(spec.chunks) +
                      ", or to 0 for 2 P V = " + std::to_string(2 * stage_count));
  return Status::ok();
}

// The rules to try, the variations that matter most first.
std::vector<ListRules> all_rules(const Program& shape, bool shares_links) {
  std::vector<std::int32_t> groups{0};
  if (shares_links) {
    groups.clear();
    const std::int32_t p = shape.ranks;
    for (const std::int32_t group : {p, 2 * p, p / 2, p + 1, 1, 2, shape.microbatches})
      if (group >= 1 && group <= shape.microbatches &&
          std::find(groups.begin(), groups.end(), group) == groups.end())
        groups.push_back(group);
    if (groups.empty()) groups.push_back(shape.microbatches);
  }
  std::vector<ListRules> rules;
  for (const double weight_lag : {kNoTime, 1.0, 0.0})
    for (const double weight_slack : {0.0, 1.0, 0.5})
      for (const double forward_slack : {0.0, 1.0, 0.5})
        for (const std::int32_t base : {0, 1})
          for (const std::int32_t group : groups)
            for (const bool deep_first : {true, false})
              for (const bool alternates : {false, true})
                for (const double window : {kNoTime, 1.5, 1.0, 3.0, 2.0, 1.25, 0.75}) {
                  if (!deep_first && shape.chunks == 1) continue;
                  if (window == kNoTime && base > 0) continue;
                  rules.push_back({window, base, forward_slack, weight_slack, alternates,
                                   deep_first, weight_lag, group});
                }
  return rules;
}

// Keeps the best `kStarts` of different price, best first.
void keep(Start start, std::vector<Start>* best) {
  const auto place = std::find_if(best->begin(), best->end(), [&](const Start& other) {
    return !other.score.is_better_than(start.score);
  });
  if (place != best->end() && !start.score.is_better_than(place->score)) return;
  best->insert(place, std::move(start));
  if (best->size() > kStarts) best->pop_back();
}

void try_lists(const SearchModel& model, const std::vector<ListRules>& rules,
               std::vector<Start>* best) {
  const auto nodes = static_cast<std::int64_t>(model.node_count());
  const auto all = static_cast<std::int64_t>(rules.size());
  const auto count = std::clamp<std::int64_t>(kListActions / nodes, 1, std::min(kLists, all));
  const std::int64_t step = count == all ? 1 : kListStep;  // a sample that mixes all rules
  Evaluator evaluator(model);
  Orders orders;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto pick = static_cast<std::size_t>(i * step % all);
    if (!make_list(model, rules[pick], &orders)) continue;
    evaluator.set_all_slots(orders);
    const Score score = evaluator.run(orders);
    if (score.span < kNoTime) keep({&model, score, orders}, best);
  }
}

// One microbatch after the other: fits every limit that is not refused.
Program one_by_one(const Program& shape) {
  Program program = shape;
  for (std::int32_t m = 0; m < shape.microbatches; ++m) {
    for (std::int32_t s = 0; s < shape.stages; ++s) {
      const std::size_t rank = shape.rank_of(StageIndex{s}, MicrobatchIndex{m}).index();
      program.actions[rank].push_back(make_action(ActionKind::kForward, s, m));
    }
    for (std::int32_t s = shape.stages; s-- > 0;) {
      const std::size_t rank = shape.rank_of(StageIndex{s}, MicrobatchIndex{m}).index();
      program.actions[rank].push_back(make_action(ActionKind::kBackward, s, m));
    }
  }
  return program;
}

class Search {
 public:
  explicit Search(const ScheduleSpec& spec) : spec_(spec), goal_(spec.search) {
    if (goal_.activation_limit == 0) goal_.activation_limit = 2 * spec.ranks * spec.chunks;
    shape_ = empty_program(spec);
    if (spec.chunks == 2) shape_.placement = Placement::kVShape;
  }

  Result<Program> run() {
    add_named();
    const std::size_t nodes =
        3 * static_cast<std::size_t>(shape_.stages) * static_cast<std::size_t>(shape_.microbatches);
    if (nodes <= kNodesMax) search();
    candidates_.push_back(one_by_one(shape_));
    return judge();
  }

 private:
  // Schedules of one replica that exist for P, M, V and fit the limit.
  void add_named() {
    for (const ScheduleInfo& info : list_schedules()) {
      if (info.name == "auto") continue;
      ScheduleSpec named = spec_;
      named.name = std::string(info.name);
      named.descending_backward = false;
      named.group = 0;
      named.search = SearchGoal{};
      Result<Program> made = make_program(named);
      if (!made.is_ok() || made.value().forward_only) continue;
      if (made.value().placement == Placement::kBidirectional) continue;
      Program program = with_ascending_weights(std::move(made.value()));
      if (fits(program)) candidates_.push_back(std::move(program));
    }
  }

  [[nodiscard]] bool fits(const Program& program) const {
    for (const std::vector<Action>& list : program.actions) {
      std::int32_t forwards = 0;
      std::int32_t inputs = 0;
      std::int32_t weights = 0;
      for (const Action& action : list) {
        const bool is_full = action.kind == ActionKind::kBackward;
        forwards += action.kind == ActionKind::kForward;
        inputs += is_full || action.kind == ActionKind::kBackwardInput;
        weights += is_full || action.kind == ActionKind::kBackwardWeight;
        const double held =
            forwards - weights - goal_.released_at_input * static_cast<double>(inputs - weights);
        if (held > goal_.activation_limit + kMemoryTolerance) return false;
      }
    }
    return true;
  }

  const SearchModel& model_for(const Program& program) {
    for (const auto& [placement, model] : models_)
      if (placement == program.placement) return *model;
    models_.emplace_back(program.placement, std::make_unique<SearchModel>(program, goal_));
    return *models_.back().second;
  }

  void search() {
    const SearchModel& model = model_for(shape_);
    std::vector<Start> starts;
    try_lists(model, all_rules(shape_, model.shares_links()), &starts);
    add_best_named(&starts);
    if (starts.empty()) return;
    const auto nodes = static_cast<std::int64_t>(model.node_count());
    const std::int64_t tries =
        goal_.effort * std::min(kTriesPerAction * nodes, kMoveActions / nodes);
    const auto share = tries / 2 / static_cast<std::int64_t>(starts.size());
    for (Start& start : starts) start.score = improve(*start.model, share, kSeed, &start.orders);
    std::stable_sort(starts.begin(), starts.end(), [](const Start& a, const Start& b) {
      return a.score.is_better_than(b.score);
    });
    Start& best = starts.front();  // half of the effort goes on from the best of the others
    best.score = improve(*best.model, tries / 2, kSeed + 1, &best.orders);
    for (const Start& start : starts) candidates_.push_back(start.model->program_of(start.orders));
  }

  // With B as I and W apart, from where the local search may go on.
  void add_best_named(std::vector<Start>* starts) {
    Start best;
    for (const Program& program : candidates_) {
      const SearchModel& model = model_for(program);
      Orders orders = model.orders_of(program);
      Evaluator evaluator(model);
      evaluator.set_all_slots(orders);
      const Score score = evaluator.run(orders);
      if (score.is_better_than(best.score)) best = {&model, score, std::move(orders)};
    }
    if (best.model != nullptr) starts->push_back(std::move(best));
  }

  // The candidate simulate() likes best among those the validator accepts.
  Result<Program> judge() {
    struct Verdict {
      double span;
      double makespan;
      std::size_t index;
      auto operator<=>(const Verdict&) const = default;
    };
    SimulationOptions options;
    options.stages = goal_.stages;
    options.hop = goal_.hop;
    const bool is_global = goal_.measure == SearchMeasure::kGlobal;
    std::vector<Verdict> verdicts;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      const Simulation simulation = simulate(candidates_[i], options);
      double span = 0;
      for (const std::vector<SimulatedAction>& row : simulation.timeline)
        span = std::max(span, row.back().end - (is_global ? 0 : row.front().start));
      verdicts.push_back({span, simulation.makespan, i});
    }
    // Sums in another order differ in their last digits: such spans are equal, the makespan
    // decides.
    const double least = std::min_element(verdicts.begin(), verdicts.end())->span;
    for (Verdict& verdict : verdicts)
      if (verdict.span <= least * (1 + kSpanTolerance)) verdict.span = least;
    std::sort(verdicts.begin(), verdicts.end());
    for (const Verdict& verdict : verdicts) {
      Program& program = candidates_[verdict.index];
      if (!validate(program).is_ok()) continue;
      program.schedule = spec_.name;
      return std::move(program);
    }
    return Status{StatusCode::kInternal, "auto found no order that the validator accepts"};
  }

  const ScheduleSpec& spec_;
  SearchGoal goal_;
  Program shape_;
  std::vector<Program> candidates_;
  std::vector<std::pair<Placement, std::unique_ptr<SearchModel>>> models_;
};

}  // namespace

Result<Program> make_auto(const ScheduleSpec& spec) {
  HEADRACE_RETURN_IF_ERROR(check_goal(spec));
  return Search(spec).run();
}

}  // namespace headrace::schedules::detail
