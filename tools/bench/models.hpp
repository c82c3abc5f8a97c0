// The plans the benchmarks run.
//
// What it is for: the GPT of the speed targets, a tiny one, and pipelines of probe layers; with a
// corpus written to the temporary folder. What it does not do: run anything. Thread rule: free
// functions for one thread.
#pragma once

#include "runtime/actors/plan.hpp"

#include <cstdint>
#include <string>

namespace headrace::bench {

struct GptSize {
  std::int32_t layers = 8, width = 512, heads = 8, context = 512;
};
inline constexpr GptSize kTargetGpt{};
inline constexpr GptSize kTinyGpt{4, 32, 2, 32};

struct Layout {
  std::int32_t ranks = 1;
  std::int32_t batch = 8;
  std::int32_t microbatch = 1;
  std::int64_t steps = 1;
  bool bf16 = false;
  std::string schedule = "1f1b";
  std::int32_t chunks = 1;
  std::int32_t reduction_blocks = 1;
};

// Training a gpt2, byte vocabulary, no dropout. Leaves the process with a message when
// the plan is refused: the benchmark itself is wrong then.
[[nodiscard]] actors::Plan gpt_plan(const GptSize& size, const Layout& layout);

// One layer of the registered kind per stage and nothing else.
[[nodiscard]] actors::Plan probe_plan(const std::string& kind, const Layout& layout);

// A text file of the process' own, made on first use and removed at exit.
[[nodiscard]] const std::string& corpus_path();

}  // namespace headrace::bench
