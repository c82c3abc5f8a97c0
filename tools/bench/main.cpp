// headrace_bench: the speed and memory figures of docs/PERFORMANCE.md, through Google Benchmark.
#include "kernels/cpu/cpu_device.hpp"
#include "runtime/base/log.hpp"
#include "tools/bench/library_bench.hpp"
#include "tools/bench/probe_layers.hpp"

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  headrace::set_log_level(headrace::LogLevel::kWarning);
  headrace::bench::register_probe_layers();
  headrace::bench::register_library();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const auto device = headrace::kernels::make_cpu_device({});
  benchmark::AddCustomContext("numerics_id", device->numerics_id());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
