// What the tests of the neural-network operators share.
//
// What it is for: seeded values, bf16 by hand, comparison of a gradient with finite differences of
// a reference in double precision, and "the same bits on every instruction set and thread count".
// What it does not do: know of any operator. Thread rule: one thread.
#pragma once

#include "kernels/cpu/nn_operators.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace headrace::kernels::nn_tests {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Uniform in [-amplitude, amplitude), the same on every machine.
[[nodiscard]] Floats random_floats(std::int64_t count, std::uint64_t seed, float amplitude = 1.0F);
[[nodiscard]] std::vector<std::int32_t> random_ids(std::int64_t count, std::int32_t below,
                                                   std::uint64_t seed);
[[nodiscard]] Doubles to_doubles(const Floats& values);

// Round to nearest even by comparing both neighbours; independent of the kernels' bit tricks.
[[nodiscard]] std::uint16_t bf16_of(float value);
[[nodiscard]] float float_of_bf16(std::uint16_t bits);
[[nodiscard]] std::vector<std::uint16_t> to_bf16(const Floats& values);
[[nodiscard]] Floats from_bf16(const std::vector<std::uint16_t>& values);

// |actual - expected| <= absolute + relative * |expected| for each element; prints the worst.
void check_close(const char* what, const Floats& actual, const Doubles& expected, double absolute,
                 double relative);

// Compares gradient[i] with the central difference of loss() in x[i], for `samples` elements spread
// over x (all of them when x is smaller).
void check_gradient(const char* what, Doubles& x, const Floats& gradient,
                    const std::function<double()>& loss, double tolerance, int samples = 60);

// Runs compute(context) for 1, 2 and 3 threads on AVX2 and, where the machine has it, AVX-512; all
// results must have the same bits. Returns the result.
[[nodiscard]] Floats same_bits_everywhere(const std::function<Floats(CpuContext&)>& compute);

inline std::int64_t size_of(const Floats& values) {
  return static_cast<std::int64_t>(values.size());
}

}  // namespace headrace::kernels::nn_tests
