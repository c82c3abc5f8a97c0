// Tiny configurations and whole runs of them, for the actor tests.
//
// What it is for: a config built in code, its data in a temporary file, the comparison of two
// results bit by bit and what is looked for in their messages. What it does not do: check anything
// itself, except that a plan can be made. Thread rule: one thread.
#pragma once

#include "runtime/actors/train.hpp"
#include "tests/data/temporary_folder.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::actors::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
// Instrumented code is an order of magnitude slower; fewer rounds show the same.
[[nodiscard]] constexpr std::int64_t rounds(std::int64_t plain, std::int64_t sanitized) {
  return kSanitized ? sanitized : plain;
}

// gpt2: 4 blocks, width 32, 4 heads, context 16, vocabulary 64; 8 sequences in 8 microbatches;
// adamw; 3 steps. Unfinished: the caller still changes it.
[[nodiscard]] config::Config tiny_config();

// Tokens that a model can learn and that never repeat exactly; ids below 60.
[[nodiscard]] std::vector<std::uint16_t> tiny_tokens(std::size_t count);

// Finishes the config and makes its plan; the test fails when either refuses.
[[nodiscard]] Plan plan_of(config::Config config, BrokenRule rule = BrokenRule::kNone);

// Three stages of four blocks on three ranks; `stage` also holds a layer of this kind, which is
// added to a finished config, so that only the partition judges it.
[[nodiscard]] Plan plan_with_layer(config::Config config, std::size_t stage, const char* kind);

[[nodiscard]] bool contains(const std::string& text, const std::string& part);

// A data file of its own for each object.
class TinyData {
 public:
  TinyData() : TinyData(tiny_tokens(4001)) {}
  explicit TinyData(const std::vector<std::uint16_t>& tokens)
      : path_(folder_.write16("tokens.bin", tokens)) {}
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] RunResult run(config::Config config, const RunOptions& options = {}) const;
  [[nodiscard]] RunResult run(const Plan& plan, const RunOptions& options = {}) const;

 private:
  data::TemporaryFolder folder_;
  std::string path_;
};

// Empty when losses, norms, learning rates and state are bitwise equal; else the first difference.
[[nodiscard]] std::string difference(const RunResult& a, const RunResult& b);

// The same with |a - b| <= tolerance * |a| for loss and norm, and without the state.
[[nodiscard]] std::string distance_beyond(const RunResult& a, const RunResult& b, double tolerance);

}  // namespace headrace::actors::testing
