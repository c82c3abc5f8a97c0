// The Operators of the CPU device.
//
// What it is for: each virtual function enqueues one plain function of nn_operators.hpp or
// basic_operators.hpp on a CPU stream. What it does not do: compute. Thread rule: stateless; a
// shared object is safe on any thread.
#pragma once

#include "kernels/operators.hpp"

#include <memory>

namespace headrace::kernels {

[[nodiscard]] std::unique_ptr<Operators> make_cpu_operators();

}  // namespace headrace::kernels
