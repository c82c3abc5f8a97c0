#include "runtime/actors/step_ledger.hpp"

#include "runtime/base/check.hpp"

#include <algorithm>
#include <cmath>

namespace headrace::actors {

StepLedger::StepLedger(const Plan& plan)
    : plan_(plan),
      seen_(static_cast<std::size_t>(plan.program.ranks), false),
      sums_(static_cast<std::size_t>(plan.program.ranks)) {}

void StepLedger::open(StepIndex step, std::int64_t supervised_tokens) {
  step_ = step;
  supervised_tokens_ = supervised_tokens;
  reported_ = 0;
  seen_.assign(seen_.size(), false);
  losses_.clear();
}

bool StepLedger::add(const NormReady& report) {
  const Rank rank(report.rank);
  HEADRACE_CHECK(report.step == step_.value && rank.index() < seen_.size() && !seen_[rank.index()],
                 "unexpected report of rank", report.rank, "step", report.step);
  seen_[rank.index()] = true;
  ++reported_;
  auto& sums = sums_[rank.index()];
  sums.clear();
  for (std::size_t i = 0; i < report.orders.size(); ++i) {
    sums.emplace_back(report.orders[i], report.square_sums[i]);
  }
  const std::size_t end = static_cast<std::size_t>(report.loss_first) + report.loss_sums.size();
  if (losses_.size() < end) losses_.resize(end);
  std::copy(report.loss_sums.begin(), report.loss_sums.end(), losses_.begin() + report.loss_first);
  return reported_ == plan_.program.ranks;
}

double StepLedger::square_sum() const {
  if (plan_.broken_rule == BrokenRule::kNormBlocks) {
    double total = 0;
    for (const auto& sums : sums_) {
      double of_rank = 0;
      for (const auto& [order, value] : sums) of_rank += value;
      total += of_rank;
    }
    return total;
  }
  std::vector<std::pair<std::int64_t, double>> all;
  for (const auto& sums : sums_) all.insert(all.end(), sums.begin(), sums.end());
  std::sort(all.begin(), all.end());
  double total = 0;
  for (const auto& [order, value] : all) total += value;
  return total;
}

StepOutcome StepLedger::outcome() const {
  StepOutcome outcome;
  double loss = 0;
  for (double of_microbatch : losses_) loss += of_microbatch;
  outcome.loss = supervised_tokens_ > 0 ? loss / static_cast<double>(supervised_tokens_) : 0.0;
  outcome.grad_norm = std::sqrt(square_sum());
  outcome.finite = std::isfinite(outcome.loss) && std::isfinite(outcome.grad_norm);
  if (outcome.finite) outcome.update = stages::update_at(plan_.optimizer, step_, outcome.grad_norm);
  return outcome;
}

}  // namespace headrace::actors
