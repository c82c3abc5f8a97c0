// The ledger of one step: joins the reports of all ranks in a fixed order and decides once for all.
//
// What it is for: loss by supervised tokens, the global gradient norm, learning rate, bias
// corrections and clip factor. What it does not do: send messages. Thread rule: owned by one
// thread.
//
// [Note: folding] Sums of squares are folded over parameters in global order, whoever reports them
// first; losses over microbatches in ascending order.
#pragma once

#include "runtime/actors/messages.hpp"
#include "runtime/actors/plan.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace headrace::actors {

struct StepOutcome {
  double loss = 0;       // nats per supervised token; 0 when there are none
  double grad_norm = 0;  // before clipping
  bool finite = true;    // of loss and norm
  stages::UpdateContext update;
};

class StepLedger {
 public:
  explicit StepLedger(const Plan& plan);

  void open(StepIndex step, std::int64_t supervised_tokens);
  // True when this was the last rank to report. @pre the report is of the open step, once per rank
  bool add(const NormReady& report);
  // @pre add returned true
  [[nodiscard]] StepOutcome outcome() const;

 private:
  [[nodiscard]] double square_sum() const;

  const Plan& plan_;
  StepIndex step_{0};
  std::int64_t supervised_tokens_ = 0;
  std::int32_t reported_ = 0;
  std::vector<bool> seen_;                                          // [rank]
  std::vector<std::vector<std::pair<std::int64_t, double>>> sums_;  // [rank] (order, value)
  std::vector<double> losses_;                                      // [microbatch]
};

}  // namespace headrace::actors
