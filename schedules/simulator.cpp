#include "schedules/simulator.hpp"

#include "schedules/detail/simulation.hpp"

#include <algorithm>

namespace headrace::schedules {
namespace detail {

std::size_t Workload::compute_count(Rank rank) const {
  const std::vector<Action>& list = program_.actions[rank.index()];
  return static_cast<std::size_t>(std::count_if(
      list.begin(), list.end(), [](const Action& action) { return is_compute(action.kind); }));
}

double Workload::duration(const Action& action) const {
  const StageCost& of_stage = cost(action.stage);
  switch (action.kind) {
    case ActionKind::kForward:
      return of_stage.forward;
    case ActionKind::kBackwardInput:
      return of_stage.backward_input;
    case ActionKind::kBackwardWeight:
      return of_stage.backward_weight;
    default:
      return of_stage.backward_input + of_stage.backward_weight;
  }
}

Block Workload::next_block(Rank rank, std::size_t* cursor) const {
  const std::vector<Action>& list = program_.actions[rank.index()];
  const auto next = [&]() -> const Action* {
    while (*cursor < list.size() && !is_compute(list[*cursor].kind)) ++*cursor;
    return *cursor < list.size() ? &list[(*cursor)++] : nullptr;
  };
  Block block;
  block.first = next();
  if (block.first == nullptr) return block;
  block.duration = block.first_leaves = duration(*block.first);
  if (block.first->overlaps_next) block.second = next();
  if (block.second == nullptr) {
    if (options_.gradient_after_input && block.first->kind == ActionKind::kBackward)
      block.first_leaves = cost(block.first->stage).backward_input;
    return block;
  }
  block.duration = options_.pair > 0 ? options_.pair : block.duration + duration(*block.second);
  if (options_.pair_leaves_at_end) {
    block.first_leaves = block.second_leaves = block.duration;
  } else {
    block.first_leaves = std::min(block.first_leaves, block.duration);
    block.second_leaves =
        std::min(block.first_leaves + cost(block.second->stage).backward_input, block.duration);
  }
  return block;
}

Message Workload::input_of(const Action& action, Rank rank) const {
  Message message;
  if (action.kind == ActionKind::kBackwardWeight) return message;
  message.is_forward = action.kind == ActionKind::kForward;
  const std::int32_t source = action.stage.value + (message.is_forward ? -1 : 1);
  if (source < 0 || source >= program_.stages) return message;
  message.exists = true;
  message.cell = at(source, action.microbatch);
  message.boundary = std::min(source, action.stage.value);
  message.from = program_.rank_of(StageIndex{source}, action.microbatch);
  message.to = rank;
  return message;
}

Message Workload::output_of(const Action& action, Rank rank) const {
  Message message;
  if (action.kind == ActionKind::kBackwardWeight) return message;
  message.is_forward = action.kind == ActionKind::kForward;
  const std::int32_t consumer = action.stage.value + (message.is_forward ? 1 : -1);
  if (consumer < 0 || consumer >= program_.stages) return message;
  message.exists = true;
  message.cell = at(action.stage.value, action.microbatch);
  message.boundary = std::min(consumer, action.stage.value);
  message.from = rank;
  message.to = program_.rank_of(StageIndex{consumer}, action.microbatch);
  return message;
}

Links::Links(const SimulationOptions& options)
    : hop_(options.hop), bytes_(&options.boundary_bytes) {
  for (const LinkCost& link : options.links)
    links_.push_back({{link.from, link.to}, {link.latency, link.seconds_per_byte, 0, 0}});
  std::sort(links_.begin(), links_.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
}

Link* Links::find(Rank from, Rank to) {
  const Ends ends{from, to};
  const auto found =
      std::lower_bound(links_.begin(), links_.end(), ends,
                       [](const auto& link, const Ends& wanted) { return link.first < wanted; });
  return found != links_.end() && found->first == ends ? &found->second : nullptr;
}

double Links::transfer_time(const Message& message) {
  const Link* link = links_.empty() ? nullptr : find(message.from, message.to);
  return link == nullptr ? hop_ : link->latency + moving_time(*link, message);
}

void Waiting::start(double begin, double free, double left, IdleCauses* causes) {
  if (!has_started) {
    causes->warm_up = begin;
  } else if (begin > last_end) {
    const double producing = std::clamp(left, free, begin);
    causes->dependency += producing - free;
    causes->transfer += (free - last_end) + (begin - producing);
  }
  has_started = true;
}

void summarize(const StepEndTimes& step_end, Simulation* simulation) {
  double busy_sum = 0;
  double span_max = 0;
  double longest_end = 0;
  for (const double time : step_end.wall) longest_end = std::max(longest_end, time);
  if (!simulation->is_deadlocked) simulation->makespan = step_end.computed + longest_end;
  const std::size_t ranks = simulation->busy.size();
  for (std::size_t r = 0; r < ranks; ++r) {
    const bool has_end = !step_end.need.empty();
    const double own_end = has_end ? step_end.wall[r] : 0;
    const std::vector<SimulatedAction>& timeline = simulation->timeline[r];
    if (has_end) simulation->busy[r] += step_end.need[r];
    busy_sum += simulation->busy[r];
    IdleCauses& causes = simulation->idle_causes[r];
    if (timeline.empty()) {
      causes.warm_up = simulation->makespan - own_end;
    } else {
      causes.cool_down = simulation->makespan - timeline.back().end - own_end;
      const double end = has_end ? step_end.computed + own_end : timeline.back().end;
      span_max = std::max(span_max, end - timeline.front().start);
    }
    simulation->idle.push_back(causes.warm_up + causes.cool_down + causes.dependency +
                               causes.transfer);
  }
  const double mean_busy = busy_sum / static_cast<double>(ranks);
  if (simulation->makespan > 0) simulation->bubble_global = 1 - mean_busy / simulation->makespan;
  if (span_max > 0) simulation->bubble_span = 1 - mean_busy / span_max;
  if (simulation->is_deadlocked) simulation->bubble_span = 1;
}

void append_step_end(const std::vector<double>& step_end, double computed, Simulation* simulation) {
  const auto longest = std::max_element(step_end.begin(), step_end.end());
  if (longest == step_end.end()) return;
  const auto rank = static_cast<std::int32_t>(longest - step_end.begin());
  simulation->critical_path.push_back({Rank{rank},
                                       {ActionKind::kOptimizer, StageIndex{0}, MicrobatchIndex{0}},
                                       computed,
                                       computed + *longest});
}

}  // namespace detail

Simulation simulate(const Program& program, const SimulationOptions& options) {
  HEADRACE_CHECK(options.stages.size() <= 1 ||
                     options.stages.size() == static_cast<std::size_t>(program.stages),
                 "one cost for all stages or one for each", options.stages.size(), program.stages);
  HEADRACE_CHECK(options.step_end.empty() ||
                     options.step_end.size() == static_cast<std::size_t>(program.ranks),
                 "one step end per rank", options.step_end.size(), program.ranks);
  HEADRACE_CHECK(options.boundary_bytes.empty() ||
                     options.boundary_bytes.size() + 1 >= static_cast<std::size_t>(program.stages),
                 "one size per boundary", options.boundary_bytes.size(), program.stages);
  if (options.cores > 0 && options.cores < program.ranks) {
    HEADRACE_CHECK(options.communication == Communication::kOverlap && options.links.empty(),
                   "shared cores are simulated with overlapped hops only");
    return detail::simulate_shared(program, options);
  }
  return options.communication == Communication::kRendezvous
             ? detail::simulate_rendezvous(program, options)
             : detail::simulate_in_order(program, options);
}

}  // namespace headrace::schedules
