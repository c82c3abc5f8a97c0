#include "runtime/base/broken_rule.hpp"

#include <array>
#include <utility>

namespace headrace {
namespace {

constexpr std::array<std::pair<BrokenRule, std::string_view>, 15> kNames{{
    {BrokenRule::kNone, "none"},
    {BrokenRule::kGemmBlocks, "gemm_blocks"},
    {BrokenRule::kTokenBlocks, "token_blocks"},
    {BrokenRule::kNormBlocks, "norm_blocks"},
    {BrokenRule::kDropoutOrder, "dropout_order"},
    {BrokenRule::kAddingOrder, "adding_order"},
    {BrokenRule::kFinishedSums, "finished_sums"},
    {BrokenRule::kTreeShape, "tree_shape"},
    {BrokenRule::kReplicaOrder, "replica_order"},
    {BrokenRule::kTiedSum, "tied_sum"},
    {BrokenRule::kBoundaryRounding, "boundary_rounding"},
    {BrokenRule::kInitByStage, "init_by_stage"},
    {BrokenRule::kNativeLanes, "native_lanes"},
    {BrokenRule::kLibmTail, "libm_tail"},
    {BrokenRule::kContraction, "contraction"},
}};

}  // namespace

std::optional<BrokenRule> parse_broken_rule(std::string_view name) {
  for (const auto& [rule, text] : kNames) {
    if (text == name) return rule;
  }
  return std::nullopt;
}

std::string_view to_string(BrokenRule rule) {
  for (const auto& [known, text] : kNames) {
    if (known == rule) return text;
  }
  return "unknown";
}

}  // namespace headrace
