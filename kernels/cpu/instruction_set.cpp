#include "kernels/cpu/instruction_set.hpp"

#include "kernels/cpu/simd_targets.hpp"
#include "runtime/base/check.hpp"

#include <hwy/targets.h>

#include <cstdint>

namespace headrace::kernels {
namespace {

std::int64_t target_of(InstructionSet set) {
  return set == InstructionSet::kAvx2 ? HWY_AVX2 : HWY_AVX3;
}

void limit_to(std::int64_t targets) {  // 0 = whatever the machine has
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace

bool has_instruction_set(InstructionSet set) {
  return (hwy::SupportedTargets() & target_of(set)) != 0;
}

InstructionSetLimit::InstructionSetLimit(InstructionSet set) {
  HEADRACE_CHECK(has_instruction_set(set), "instruction set", static_cast<int>(set));
  limit_to(target_of(set));
}

InstructionSetLimit::~InstructionSetLimit() { limit_to(0); }

}  // namespace headrace::kernels
