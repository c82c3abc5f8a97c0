// The instruction sets our SIMD kernels are compiled for: AVX2+FMA and AVX-512.
//
// What it is for: include it before <hwy/foreach_target.h> in every file that uses Highway, so that
// all files agree. What it does not do: check the machine (make_cpu_device does, before any kernel
// runs). Thread rule: macros only.
//
// [Note: simd files] A kernel file is compiled once per instruction set:
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "kernels/cpu/NAME.cpp"
//   #include "kernels/cpu/simd_targets.hpp"
//   #include <hwy/foreach_target.h>
//   #include "kernels/cpu/lanes-inl.hpp"   (and math-inl.hpp)
// The order matters: keep the formatter off around it.
#pragma once

#define HWY_BASELINE_TARGETS HWY_AVX2
#define HWY_DISABLED_TARGETS (~(HWY_AVX2 | HWY_AVX3))
