// A benchmark per schedule of the library: measured step time against the simulator's.
//
// What it is for: the registry decides which exist, so they are registered at start. What it does
// not do: measure before it is asked. Thread rule: call once, before the benchmarks run.
#pragma once

namespace headrace::bench {

void register_library();

}  // namespace headrace::bench
