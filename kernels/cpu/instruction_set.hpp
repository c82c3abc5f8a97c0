// Limits our SIMD kernels to one instruction set, for tests of equal bits.
//
// What it is for: AVX2 and AVX-512 must give the same bits; a test or a tool shows it on one
// machine. What it does not do: limit oneDNN, whose products differ between instruction sets (the
// numerics id names it). Thread rule: changes process-wide dispatch; no kernel may run meanwhile.
#pragma once

namespace headrace::kernels {

enum class InstructionSet { kAvx2, kAvx512 };

// Whether this machine has it and our kernels are compiled for it.
[[nodiscard]] bool has_instruction_set(InstructionSet set);

// While it lives, kernels run on `set`; afterwards on the machine's best. @pre has it.
class InstructionSetLimit {
 public:
  explicit InstructionSetLimit(InstructionSet set);
  ~InstructionSetLimit();
  InstructionSetLimit(const InstructionSetLimit&) = delete;
  InstructionSetLimit& operator=(const InstructionSetLimit&) = delete;
};

}  // namespace headrace::kernels
