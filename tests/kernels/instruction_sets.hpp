// Runs a test once per instruction set that this machine and our kernels share.
//
// What it is for: bits must be equal on AVX2 and AVX-512. What it does not do: limit oneDNN. Thread
// rule: changes process-wide dispatch; one test at a time.
#pragma once

#include "kernels/cpu/instruction_set.hpp"

namespace headrace::kernels::test {

// function(name, is_first)
template <typename Function>
void for_each_instruction_set(Function&& function) {
  bool is_first = true;
  for (const InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (!has_instruction_set(set)) continue;
    const InstructionSetLimit limit(set);
    function(set == InstructionSet::kAvx2 ? "AVX2" : "AVX-512", is_first);
    is_first = false;
  }
}

}  // namespace headrace::kernels::test
