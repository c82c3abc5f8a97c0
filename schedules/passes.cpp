#include "schedules/passes.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

namespace headrace::schedules {
namespace {

// The weight gradients of one stage on one rank: the order they must be added in, and which of them
// have reached their place in the list but wait for a lower one.
struct WeightQueue {
  std::vector<std::int32_t> order;     // microbatches, ascending
  std::vector<std::int32_t> arrivals;  // same index: how many of this microbatch wait
  std::size_t next = 0;

  [[nodiscard]] bool is_next(std::int32_t microbatch) const {
    return next < order.size() && order[next] == microbatch;
  }
  void arrive(std::int32_t microbatch) {
    const auto at = std::lower_bound(order.begin(), order.end(), microbatch);
    ++arrivals[static_cast<std::size_t>(at - order.begin())];
  }
  // Appends every weight gradient that may now run.
  void flush(StageIndex stage, std::vector<Action>* out) {
    while (next < order.size() && arrivals[next] > 0) {
      --arrivals[next];
      out->push_back({ActionKind::kBackwardWeight, stage, MicrobatchIndex{order[next]}});
      ++next;
    }
  }
};

using WeightQueues = std::map<StageIndex, WeightQueue>;

WeightQueues queues_of(const std::vector<Action>& list) {
  WeightQueues queues;
  for (const Action& action : list)
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardWeight)
      queues[action.stage].order.push_back(action.microbatch.value);
  for (auto& [stage, queue] : queues) {
    std::sort(queue.order.begin(), queue.order.end());
    queue.arrivals.assign(queue.order.size(), 0);
  }
  return queues;
}

std::vector<Action> ascending_weights(const std::vector<Action>& list) {
  WeightQueues queues = queues_of(list);
  std::vector<Action> out;
  out.reserve(list.size());
  for (const Action& action : list) {
    const bool is_full = action.kind == ActionKind::kBackward;
    if (!is_full && action.kind != ActionKind::kBackwardWeight) {
      out.push_back(action);
      continue;
    }
    WeightQueue& queue = queues[action.stage];
    if (is_full && queue.is_next(action.microbatch.value)) {
      out.push_back(action);
      ++queue.next;
    } else {
      if (is_full) out.push_back({ActionKind::kBackwardInput, action.stage, action.microbatch});
      queue.arrive(action.microbatch.value);
    }
    queue.flush(action.stage, &out);
  }
  return out;
}

bool has_transfers(const Program& program) {
  for (const std::vector<Action>& list : program.actions)
    for (const Action& action : list)
      if (is_transfer(action.kind)) return true;
  return false;
}

// Whether the neighbour `stage + step` exists and lives on another rank.
bool crosses(const Program& program, const Action& action, std::int32_t step) {
  const StageIndex neighbour{action.stage.value + step};
  if (neighbour.value < 0 || neighbour.value >= program.stages) return false;
  return program.rank_of(neighbour, action.microbatch) !=
         program.rank_of(action.stage, action.microbatch);
}

void append_receive(const Program& program, const Action& action, std::vector<Action>* out) {
  const bool takes_gradient =
      action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
  if (action.kind == ActionKind::kForward && crosses(program, action, -1))
    out->push_back({ActionKind::kRecvForward, action.stage, action.microbatch});
  if (takes_gradient && crosses(program, action, 1))
    out->push_back({ActionKind::kRecvBackward, action.stage, action.microbatch});
}

void append_send(const Program& program, const Action& action, std::vector<Action>* out) {
  const bool makes_gradient =
      action.kind == ActionKind::kBackward || action.kind == ActionKind::kBackwardInput;
  if (action.kind == ActionKind::kForward && crosses(program, action, 1))
    out->push_back({ActionKind::kSendForward, action.stage, action.microbatch});
  if (makes_gradient && crosses(program, action, -1))
    out->push_back({ActionKind::kSendBackward, action.stage, action.microbatch});
}

std::vector<Action> list_with_transfers(const Program& program, const std::vector<Action>& list) {
  std::vector<Action> out;
  out.reserve(3 * list.size());
  for (std::size_t begin = 0; begin < list.size();) {
    std::size_t end = begin + 1;
    if (list[begin].overlaps_next && end < list.size()) ++end;
    for (std::size_t i = begin; i < end; ++i) append_receive(program, list[i], &out);
    for (std::size_t i = begin; i < end; ++i) out.push_back(list[i]);
    for (std::size_t i = begin; i < end; ++i) append_send(program, list[i], &out);
    begin = end;
  }
  return out;
}

bool holds_stage(const Program& program, Rank rank, StageIndex stage) {
  return program.rank_of(stage, MicrobatchIndex{0}) == rank ||
         program.rank_of(stage, MicrobatchIndex{program.microbatches - 1}) == rank;
}

}  // namespace

Program without_pairs(Program program) {
  for (std::vector<Action>& list : program.actions) {
    for (Action& action : list) action.overlaps_next = false;
  }
  return program;
}

Program without_transfers(Program program) {
  for (std::vector<Action>& list : program.actions) {
    std::erase_if(list, [](const Action& action) { return is_transfer(action.kind); });
  }
  return program;
}

Program with_ascending_weights(Program program) {
  for (std::vector<Action>& list : program.actions) list = ascending_weights(list);
  return program;
}

Program with_step_end(Program program, const StepEnd& options) {
  if (program.forward_only) return program;
  for (std::int32_t s = 0; s < program.stages; ++s) {
    const StageIndex stage{s};
    const Rank low = program.rank_of(stage, MicrobatchIndex{0});
    const Rank high = program.rank_of(stage, MicrobatchIndex{program.microbatches - 1});
    const Action reduce{ActionKind::kReduceGrad, stage, MicrobatchIndex{0}};
    program.actions[low.index()].push_back(reduce);
    if (high != low) program.actions[high.index()].push_back(reduce);
  }
  const StageIndex first{0};
  const StageIndex last{program.stages - 1};
  for (std::int32_t r = 0; r < program.ranks; ++r) {
    std::vector<Action>& list = program.actions[Rank{r}.index()];
    const bool has_first = holds_stage(program, Rank{r}, first);
    const bool has_last = holds_stage(program, Rank{r}, last);
    if (options.tied && has_first != has_last) {
      const StageIndex end = has_first ? first : last;
      list.push_back({ActionKind::kTiedSend, end, MicrobatchIndex{0}});
      list.push_back({ActionKind::kTiedRecv, end, MicrobatchIndex{0}});
    }
    for (ActionKind kind : {ActionKind::kNorm, ActionKind::kCommit, ActionKind::kOptimizer})
      list.push_back({kind, StageIndex{0}, MicrobatchIndex{0}});
  }
  return program;
}

Program with_transfers(Program program) {
  if (has_transfers(program)) return program;
  for (std::vector<Action>& list : program.actions) list = list_with_transfers(program, list);
  return program;
}

}  // namespace headrace::schedules
