#include "schedules/transports.hpp"

#include "schedules/detail/transport_runs.hpp"
#include "schedules/passes.hpp"
#include "schedules/validator.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace headrace::schedules {
namespace {

bool is_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

void end_step(LoweredList* list) {
  const auto size = static_cast<std::int32_t>(list->actions.size());
  if (list->ends.empty() ? size > 0 : list->ends.back() != size) list->ends.push_back(size);
}

// Cuts a list with transfers into steps; `together` joins neighbouring transfers.
LoweredList cut(const std::vector<Action>& actions, bool together) {
  LoweredList list;
  bool in_pair = false;
  for (const Action& action : actions) {
    if (is_step_end(action.kind)) continue;
    const bool joins_transfers = together && is_transfer(action.kind) && !list.actions.empty() &&
                                 is_transfer(list.actions.back().kind);
    if (!in_pair && !joins_transfers) end_step(&list);
    list.actions.push_back(action);
    in_pair = action.overlaps_next;
  }
  end_step(&list);
  return list;
}

std::vector<LoweredList> cut_all(const Program& lowered, bool together) {
  std::vector<LoweredList> lists;
  for (const std::vector<Action>& actions : lowered.actions)
    lists.push_back(cut(actions, together));
  return lists;
}

// PyTorch's sweep.
class TorchSweep {
 public:
  explicit TorchSweep(const Program& program)
      : program_(program),
        lists_(program.actions.size()),
        next_(program.actions.size(), 0),
        forward_there_(cells(), false),
        gradient_there_(cells(), false) {}

  Result<std::vector<LoweredList>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < lists_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < lists_.size(); ++r)
      if (next_[r] < program_.actions[r].size())
        return Status{StatusCode::kConfig, "no rank can go on: rank " + std::to_string(r) +
                                               " stands at " +
                                               to_string(program_.actions[r][next_[r]])};
    return std::move(lists_);
  }

 private:
  [[nodiscard]] std::size_t cells() const {
    return static_cast<std::size_t>(program_.stages) *
           static_cast<std::size_t>(program_.microbatches);
  }
  [[nodiscard]] std::size_t cell(std::int32_t stage, MicrobatchIndex m) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(program_.microbatches) +
           m.index();
  }

  // What a stage makes counts as there for its neighbour at once: the receive joins its list then.
  [[nodiscard]] bool is_ready(const Action& action) const {
    const std::int32_t s = action.stage.value;
    if (action.kind == ActionKind::kForward)
      return s == 0 || forward_there_[cell(s - 1, action.microbatch)];
    if (is_gradient(action.kind))
      return s + 1 == program_.stages || gradient_there_[cell(s + 1, action.microbatch)];
    return true;
  }

  bool advance(std::size_t rank) {
    const std::vector<Action>& from = program_.actions[rank];
    const std::size_t begin = next_[rank];
    if (begin == from.size()) return false;
    const std::size_t end = begin + (from[begin].overlaps_next && begin + 1 < from.size() ? 2 : 1);
    for (std::size_t i = begin; i < end; ++i)
      if (!is_ready(from[i])) return false;
    for (std::size_t i = begin; i < end; ++i) lists_[rank].actions.push_back(from[i]);
    end_step(&lists_[rank]);
    for (std::size_t i = begin; i < end; ++i) hand_over(from[i]);
    next_[rank] = end;
    return true;
  }

  void hand_over(const Action& action) {
    const std::int32_t s = action.stage.value;
    const bool forward = action.kind == ActionKind::kForward;
    if (!forward && !is_gradient(action.kind)) return;
    (forward ? forward_there_ : gradient_there_)[cell(s, action.microbatch)] = true;
    const std::int32_t target = forward ? s + 1 : s - 1;
    if (target < 0 || target >= program_.stages) return;
    const Rank here = program_.rank_of(action.stage, action.microbatch);
    const Rank there = program_.rank_of(StageIndex{target}, action.microbatch);
    if (here == there) return;
    append(here, {forward ? ActionKind::kSendForward : ActionKind::kSendBackward, action.stage,
                  action.microbatch});
    append(there, {forward ? ActionKind::kRecvForward : ActionKind::kRecvBackward,
                   StageIndex{target}, action.microbatch});
  }

  void append(Rank rank, const Action& action) {
    lists_[rank.index()].actions.push_back(action);
    end_step(&lists_[rank.index()]);
  }

  const Program& program_;
  std::vector<LoweredList> lists_;
  std::vector<std::size_t> next_;  // [rank]
  std::vector<bool> forward_there_;
  std::vector<bool> gradient_there_;
};

bool has_transfers(const Program& program) {
  return std::any_of(program.actions.begin(), program.actions.end(), [](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [](const Action& action) { return is_transfer(action.kind); });
  });
}

Program without_step_end(Program program) {
  for (std::vector<Action>& list : program.actions)
    std::erase_if(list, [](const Action& action) { return is_step_end(action.kind); });
  return program;
}

constexpr std::array<std::string_view, 7> kModels{
    "rendezvous_tag", "rendezvous_fifo", "buffer1_tag",    "buffered_tag",
    "buffered_fifo",  "async_pair_fifo", "async_rank_fifo"};

void judge(const Program& program, const std::vector<LoweredList>& lists, const std::string& name,
           std::vector<NamedVerdict>* out) {
  using detail::kUnbounded;
  const auto blocking = [&](std::int32_t buffers, bool by_order) {
    return detail::run_blocking(program, lists, {buffers, by_order});
  };
  const std::array<Verdict, kModels.size()> verdicts{blocking(0, false),
                                                     blocking(0, true),
                                                     blocking(1, false),
                                                     blocking(kUnbounded, false),
                                                     blocking(kUnbounded, true),
                                                     detail::run_queued(program, lists, true),
                                                     detail::run_queued(program, lists, false)};
  for (std::size_t i = 0; i < kModels.size(); ++i)
    out->push_back({name, std::string(kModels[i]), verdicts[i]});
}

// No list could be made: whatever the model, nothing ends.
void judge_nothing(const std::string& name, const std::string& why,
                   std::vector<NamedVerdict>* out) {
  for (std::string_view model : kModels)
    out->push_back({name, std::string(model), {true, false, why}});
}

std::int32_t least_buffers(const Program& program, const std::vector<LoweredList>& lists) {
  const auto hangs = [&](std::int32_t buffers) {
    return detail::run_blocking(program, lists, {buffers, false}).deadlock;
  };
  if (hangs(detail::kUnbounded)) return -1;
  if (!hangs(0)) return 0;
  std::int32_t too_few = 0;
  std::int32_t enough = 1;
  for (; hangs(enough); enough *= 2) too_few = enough;
  while (enough - too_few > 1) {
    const std::int32_t middle = too_few + (enough - too_few) / 2;
    (hangs(middle) ? too_few : enough) = middle;
  }
  return enough;
}

// What the two ends of a channel list.
struct ChannelEnds {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;

  [[nodiscard]] bool agree() const { return sent == received; }
};

// Compares the two ends of every directed link, per kind and of both kinds together.
std::vector<LinkMatching> match_links(const Program& program,
                                      const std::vector<LoweredList>& lists) {
  std::map<std::tuple<Rank, Rank, bool>, ChannelEnds> by_kind;
  std::map<std::pair<Rank, Rank>, ChannelEnds> shared;
  for (std::int32_t r = 0; r < program.ranks; ++r)
    for (const Action& action : lists[Rank{r}.index()].actions) {
      if (!is_transfer(action.kind)) continue;
      const detail::Message message = detail::message_of(program, action);
      const bool gradient =
          action.kind == ActionKind::kSendBackward || action.kind == ActionKind::kRecvBackward;
      const Rank from = message.is_send ? Rank{r} : message.peer;
      const Rank to = message.is_send ? message.peer : Rank{r};
      for (ChannelEnds* ends : {&by_kind[{from, to, gradient}], &shared[{from, to}]})
        (message.is_send ? ends->sent : ends->received).push_back(message.id);
    }
  std::vector<LinkMatching> links;
  for (const auto& [link, ends] : by_kind) {
    const auto& [from, to, gradient] = link;
    links.push_back({from, to, gradient, ends.agree(), shared[{from, to}].agree()});
  }
  return links;
}

// Joins each forward with the backward right after it.
Program in_units(Program program) {
  for (std::vector<Action>& list : program.actions)
    for (std::size_t i = 0; i + 1 < list.size(); ++i)
      list[i].overlaps_next =
          list[i].kind == ActionKind::kForward && (list[i + 1].kind == ActionKind::kBackward ||
                                                   list[i + 1].kind == ActionKind::kBackwardInput);
  return program;
}

}  // namespace

Result<std::vector<LoweredList>> lower(const Program& compute_only, Lowering lowering) {
  if (lowering == Lowering::kTorch) return TorchSweep(without_step_end(compute_only)).run();
  if (lowering == Lowering::kUnits) return cut_all(with_transfers(in_units(compute_only)), true);
  return cut_all(with_transfers(compute_only), lowering == Lowering::kBatched);
}

TransportReport examine_transports(const Program& program) {
  TransportReport report;
  report.runtime_ok = validate(program).is_ok();
  const bool is_given = has_transfers(program);
  if (is_given) {
    const std::vector<LoweredList> given = cut_all(program, false);
    judge(program, given, "given", &report.verdicts);
    report.least_buffers = least_buffers(program, given);
    report.links = match_links(program, given);
  }
  const Program bare = is_given ? without_transfers(program) : program;
  constexpr std::array<std::pair<Lowering, std::string_view>, 4> kLowerings{
      {{Lowering::kNaive, "naive"},
       {Lowering::kBatched, "batched"},
       {Lowering::kUnits, "units"},
       {Lowering::kTorch, "torch"}}};
  for (const auto& [lowering, name] : kLowerings) {
    const Result<std::vector<LoweredList>> lists = lower(bare, lowering);
    if (!lists.is_ok()) {
      judge_nothing(std::string(name), lists.status().message(), &report.verdicts);
      continue;
    }
    judge(bare, *lists, std::string(name), &report.verdicts);
    if (lowering != Lowering::kNaive || is_given) continue;
    report.least_buffers = least_buffers(bare, *lists);
    report.links = match_links(bare, *lists);
  }
  return report;
}

}  // namespace headrace::schedules
