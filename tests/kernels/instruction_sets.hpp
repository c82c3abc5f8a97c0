// Runs a test once per instruction set that this machine and our kernels share.
//
// What it is for: bits must be equal on AVX2 and AVX-512. What it does not do: limit oneDNN. Thread
// rule: changes process-wide dispatch; one test at a time.
#pragma once

#include "kernels/cpu/simd_targets.hpp"

#include <hwy/targets.h>

namespace headrace::kernels::test {

// function(name, is_first)
template <typename Function>
void for_each_instruction_set(Function&& function) {
  const auto limit = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  };
  limit(0);
  const std::int64_t machine = hwy::SupportedTargets();
  bool is_first = true;
  for (const std::int64_t target : {std::int64_t{HWY_AVX2}, std::int64_t{HWY_AVX3}}) {
    if ((machine & target) == 0) continue;
    limit(target);
    function(hwy::TargetName(target), is_first);
    is_first = false;
  }
  limit(0);
}

}  // namespace headrace::kernels::test
