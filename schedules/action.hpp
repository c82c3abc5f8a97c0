// One action of a pipeline program, and its text form.
//
// What it is for: the single vocabulary of schedules, trace events, log fields and golden files.
// Text is PyTorch's schedule notation (torch.distributed.pipelining, schedules.py): `2F0` is stage
// 2, forward, microbatch 0; `1I3`, `0W3`, `1SEND_F3`; actions of a stage without a microbatch are
// `0REDUCE_GRAD`, those of a whole rank are `NORM`. What it does not do: say when or where an
// action runs. Thread rule: values; distinct objects are independent.
#pragma once

#include "runtime/base/ids.hpp"
#include "runtime/base/status.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::schedules {

enum class ActionKind : std::uint8_t {
  kForward,         // F
  kBackward,        // B: literally I then W
  kBackwardInput,   // I: gradient of the stage's input
  kBackwardWeight,  // W: gradient of the stage's parameters
  kSendForward,     // SEND_F: hand the activation of this stage to the next
  kRecvForward,     // RECV_F: take the activation this stage consumes
  kSendBackward,    // SEND_B: hand the gradient of this stage's input to the one before
  kRecvBackward,    // RECV_B: take the gradient of this stage's output
  kReduceGrad,      // REDUCE_GRAD: fold the gradient blocks of a stage (and of its replicas)
  kTiedSend,        // TIED_SEND: ship this end's part of the tied gradient
  kTiedRecv,        // TIED_RECV: take the other end's part and add in fixed order
  kNorm,            // NORM: sums of squares of the rank's gradients, reported to the scheduler
  kCommit,          // COMMIT: wait for the scheduler's decision
  kOptimizer,       // OPTIMIZER: apply the update
};

struct Action {
  ActionKind kind = ActionKind::kForward;
  StageIndex stage{0};            // meaningless for kNorm, kCommit, kOptimizer (kept 0)
  MicrobatchIndex microbatch{0};  // meaningless for the step's end (kept 0)
  // This forward and the backward after it in the rank's list are one block, written
  // `(0F3;5B1)OVERLAP_F_B`: it takes the pair's duration, and both outputs leave at its end.
  bool overlaps_next = false;

  constexpr bool operator==(const Action&) const = default;
};

[[nodiscard]] constexpr bool is_compute(ActionKind kind) {
  return kind <= ActionKind::kBackwardWeight;
}
[[nodiscard]] constexpr bool is_transfer(ActionKind kind) {
  return kind >= ActionKind::kSendForward && kind <= ActionKind::kRecvBackward;
}
[[nodiscard]] constexpr bool is_step_end(ActionKind kind) {
  return kind >= ActionKind::kReduceGrad;
}

[[nodiscard]] std::string to_string(const Action& action);
// kConfig with the offending text when `text` is no action.
[[nodiscard]] Result<Action> parse_action(std::string_view text);

}  // namespace headrace::schedules
