// The cells of the same-bits table: which layouts must give the same bits.
//
// What it is for: two test models, NARROW (30 blocks, width 32) for wide sweeps and WIDE (width
// 272, 2,199 rows a microbatch, nothing a multiple of a block) for what tiny models cannot show,
// and the cells of each as data. What it does not do: run them. Thread rule: values and pure
// functions.
#pragma once

#include "runtime/base/broken_rule.hpp"
#include "runtime/config/config.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace headrace::same_bits {

enum class TestModel { kNarrow, kWide };

struct Cell {
  TestModel model = TestModel::kNarrow;
  std::string schedule = "1f1b";
  bool reverse_backward = false;  // gpipe and looped_bfs
  std::int32_t ranks = 1;
  std::int32_t chunks = 1;
  std::int32_t microbatches = 1;
  bool recompute = false;
  bool greedy = false;
  bool queued = false;
  std::int32_t threads = 1;
  bool bf16 = false;
  bool tied = true;
  std::int32_t reduction_blocks = 1;
  std::int32_t vocabulary = 0;  // 0 = the test model's
  bool avx2 = false;            // our kernels on AVX2 whatever the machine has; fp32 only
};

// Cells with the same key must give the same state hash.
[[nodiscard]] std::string key_of(const Cell& cell);
[[nodiscard]] std::string text_of(const Cell& cell);
[[nodiscard]] config::Config config_of(const Cell& cell, const std::string& data_path);

// {gpipe, gpipe reversed, 1f1b, interleaved_1f1b} x P x V x M x recompute x policy x mode, where
// valid.
[[nodiscard]] std::vector<Cell> narrow_cells();
// Every schedule of the library x P x V where it exists, with M = 16, or 12 where it exists for
// that alone, and R = 2, which two replicas need, x recompute x policy x mode.
[[nodiscard]] std::vector<Cell> library_cells();
// Of library_cells(): every schedule once for each M and policy, inline, and a few cells on queued
// streams, drawn by seed: what the check has time for.
[[nodiscard]] std::vector<Cell> library_sample(std::uint64_t seed);
// Blocks of the gradient tree: R = 4 at M = 8.
[[nodiscard]] std::vector<Cell> tree_cells();
// Threads 1, 2, 3; recompute; tied or not; P; fp32 and bf16.
[[nodiscard]] std::vector<Cell> wide_cells(bool with_bf16);
// Our kernels on AVX2: lanes, exponentials and roundings are the same on every instruction set.
// (oneDNN's products keep the machine's instruction set: they are what the numerics id names.)
[[nodiscard]] std::vector<Cell> instruction_set_cells();
// Covers every pair of settings that occurs in `cells`, ties broken by seed.
[[nodiscard]] std::vector<Cell> pairwise_sample(const std::vector<Cell>& cells, std::uint64_t seed);

// A rule and the cells in which breaking it must show.
struct Mutation {
  BrokenRule rule = BrokenRule::kNone;
  std::vector<Cell> cells;
};
[[nodiscard]] std::vector<Mutation> mutations(bool with_bf16, bool with_avx512);

}  // namespace headrace::same_bits
