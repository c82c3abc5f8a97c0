// Test-only switches that break one rule of the same-bits promise each.
//
// What it is for: a promise nobody can break in a test is a promise nobody has tested. Each rule of
// docs/ARCHITECTURE.md (Numbers) has a switch here; turning it on must turn the same-bits table
// red. What it does not do: anything in a normal run (kNone). Thread rule: a value, passed in with
// the options of its user.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace headrace {

enum class BrokenRule : std::uint8_t {
  kNone,
  kGemmBlocks,    // GEMM row blocks follow the thread count instead of 256 rows
  kTokenBlocks,   // reductions over tokens split by thread count instead of 256-row blocks
  kNormBlocks,    // the gradient norm sums per rank first, then over ranks
  kDropoutOrder,  // dropout masks follow execution order instead of (sample, element)
  kAddingOrder,   // a weight gradient is added when it is ready, not in ascending order
  kFinishedSums,  // a weight gradient is finished aside first and added afterwards
  kTreeShape,     // gradient blocks are folded left to right per rank count, not in the fixed tree
  kReplicaOrder,  // a replica folds its own gradient blocks first, then those of the other
  kTiedSum,       // a tied matrix counts twice in the norm where its ends are on different ranks
  kBoundaryRounding,  // bf16: the residual stream is rounded at stage boundaries only
  kInitByStage,       // parameters are initialised from a generator per stage
  kNativeLanes,       // a sum of squares has as many lanes as the machine's vectors, not 16
  kLibmTail,          // what is left of a row after whole vectors goes through libm's exp
  kContraction,       // a product and a sum are fused on the wider instruction set only
};

[[nodiscard]] std::optional<BrokenRule> parse_broken_rule(std::string_view name);
[[nodiscard]] std::string_view to_string(BrokenRule rule);

}  // namespace headrace
