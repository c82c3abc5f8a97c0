#include "tools/same_bits/cells.hpp"

#include "schedules/registry.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>
#include <utility>

namespace headrace::same_bits {
namespace {

struct Layout {
  std::string schedule;
  bool reverse_backward;
  std::int32_t ranks;
  std::int32_t chunks;
};

bool exists(const Layout& layout, std::int32_t microbatches) {
  schedules::ScheduleSpec spec;
  spec.name = layout.schedule;
  spec.ranks = layout.ranks;
  spec.chunks = layout.chunks;
  spec.microbatches = microbatches;
  spec.descending_backward = layout.reverse_backward;
  const auto program = schedules::make_program(spec);
  return program.is_ok() && !program->forward_only;
}

std::vector<Layout> layouts() {
  std::vector<Layout> all;
  for (std::int32_t ranks : {1, 2, 3, 4, 8}) {
    all.push_back({"gpipe", false, ranks, 1});
    all.push_back({"gpipe", true, ranks, 1});
    all.push_back({"1f1b", false, ranks, 1});
    for (std::int32_t chunks : {1, 2, 4}) all.push_back({"interleaved_1f1b", false, ranks, chunks});
  }
  return all;
}

Cell cell_of(const Layout& layout, std::int32_t microbatches) {
  Cell cell;
  cell.schedule = layout.schedule;
  cell.reverse_backward = layout.reverse_backward;
  cell.ranks = layout.ranks;
  cell.chunks = layout.chunks;
  cell.microbatches = microbatches;
  return cell;
}

Cell wide(const char* schedule, std::int32_t ranks, std::int32_t threads) {
  Cell cell;
  cell.model = TestModel::kWide;
  cell.schedule = schedule;
  cell.ranks = ranks;
  cell.threads = threads;
  cell.microbatches = 2;
  return cell;
}

// The settings of a cell by name, for pair coverage.
using Setting = std::pair<int, std::string>;

std::vector<Setting> settings_of(const Cell& cell) {
  const auto flag = [](bool on) { return std::string(on ? "on" : "off"); };
  return {{0, cell.schedule + (cell.reverse_backward ? " reversed" : "")},
          {1, std::to_string(cell.ranks)},
          {2, std::to_string(cell.chunks)},
          {3, std::to_string(cell.microbatches)},
          {4, flag(cell.recompute)},
          {5, flag(cell.greedy)},
          {6, flag(cell.queued)}};
}

using Pair = std::pair<Setting, Setting>;

std::vector<Pair> pairs_of(const Cell& cell) {
  const auto settings = settings_of(cell);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < settings.size(); ++i) {
    for (std::size_t j = i + 1; j < settings.size(); ++j)
      pairs.emplace_back(settings[i], settings[j]);
  }
  return pairs;
}

void set_narrow(config::Config& config) {
  config.model.layers = 30;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.context = 12;
  config.model.vocabulary = {false, 64};
  config.model.dropout = 0.1;
  config.batch.microbatch_size = 2;
  config.run.steps = 6;
}

void set_wide(config::Config& config) {
  config.model.layers = 4;
  config.model.width = 272;
  config.model.heads = 4;
  config.model.context = 733;
  config.model.vocabulary = {false, 1031};
  config.model.dropout = 0.1;
  config.batch.microbatch_size = 3;
  config.run.steps = 2;
}

}  // namespace

std::string key_of(const Cell& cell) {
  std::string key = cell.model == TestModel::kNarrow ? "NARROW" : "WIDE";
  key += " M=" + std::to_string(cell.microbatches);
  key += " R=" + std::to_string(cell.reduction_blocks);
  key += cell.bf16 ? " bf16" : " fp32";
  if (cell.vocabulary != 0) key += " vocabulary=" + std::to_string(cell.vocabulary);
  return key + (cell.tied ? " tied" : " untied");
}

std::string text_of(const Cell& cell) {
  std::string text = cell.schedule + (cell.reverse_backward ? " reversed" : "");
  text += " P=" + std::to_string(cell.ranks) + " V=" + std::to_string(cell.chunks);
  text += cell.recompute ? " recompute" : "";
  text += cell.greedy ? " greedy" : " static";
  text += cell.queued ? " queued" : " inline";
  text += cell.avx2 ? " avx2" : "";
  return text + " threads=" + std::to_string(cell.threads);
}

config::Config config_of(const Cell& cell, const std::string& data_path) {
  config::Config config;
  cell.model == TestModel::kNarrow ? set_narrow(config) : set_wide(config);
  config.model.kind = config::ModelKind::kGpt2;
  config.model.tied = cell.tied;
  if (cell.vocabulary != 0) config.model.vocabulary = {false, cell.vocabulary};
  config.pipeline = {cell.ranks, cell.chunks};
  config.ranks.assign(static_cast<std::size_t>(cell.ranks),
                      {0, config::DeviceType::kCpu, cell.threads});
  config.schedule.name = cell.schedule;
  if (cell.reverse_backward) config.schedule.backward = config::BackwardOrder::kDescending;
  config.schedule.policy = cell.greedy ? config::PolicyKind::kGreedy : config::PolicyKind::kStatic;
  config.batch.size = cell.microbatches * config.batch.microbatch_size;
  config.data.train = data_path;
  config.data.format = config::DataFormat::kTokens16;
  config.optimizer.learning_rate = 1e-2;
  config.optimizer.warmup_steps = 2;
  config.optimizer.decay = config::DecayKind::kCosine;
  config.optimizer.weight_decay = 0.1;
  config.optimizer.clip_norm = 0.5;
  config.run.precision = cell.bf16 ? config::Precision::kBf16 : config::Precision::kFp32;
  config.run.recompute =
      cell.recompute ? config::RecomputeKind::kBlock : config::RecomputeKind::kNone;
  config.run.queued = cell.queued;
  config.determinism.reduction_blocks = cell.reduction_blocks;
  return config;
}

std::vector<Cell> narrow_cells() {
  std::vector<Cell> cells;
  for (std::int32_t microbatches : {1, 3, 8}) {
    for (const Layout& layout : layouts()) {
      if (!exists(layout, microbatches)) continue;
      for (int bits = 0; bits < 8; ++bits) {
        Cell cell = cell_of(layout, microbatches);
        cell.recompute = (bits & 1) != 0;
        cell.greedy = (bits & 2) != 0;
        cell.queued = (bits & 4) != 0;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Cell> library_cells() {
  constexpr std::int32_t kMicrobatches = 16;
  constexpr std::int32_t kOtherwise = 12;  // for what does not exist for 16, as chimera on 6 ranks
  std::vector<Layout> all;
  for (const schedules::ScheduleInfo& info : schedules::list_schedules()) {
    for (std::int32_t ranks : {1, 2, 3, 4, 6, 8}) {
      for (std::int32_t chunks : {1, 2, 4}) {
        all.push_back({std::string(info.name), false, ranks, chunks});
        if (info.takes_descending) all.push_back({std::string(info.name), true, ranks, chunks});
      }
    }
  }
  std::vector<Cell> cells;
  for (const Layout& layout : all) {
    const bool is_alone = layout.schedule == "1f1b" && layout.ranks == 1;
    for (const std::int32_t microbatches : {kMicrobatches, kOtherwise}) {
      if (!exists(layout, microbatches)) continue;
      if (microbatches == kOtherwise && exists(layout, kMicrobatches) && !is_alone) continue;
      for (int bits = 0; bits < 8; ++bits) {
        Cell cell = cell_of(layout, microbatches);
        cell.reduction_blocks = 2;
        cell.recompute = (bits & 1) != 0;
        cell.greedy = (bits & 2) != 0;
        cell.queued = (bits & 4) != 0;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Cell> library_sample(std::uint64_t seed) {
  constexpr std::size_t kQueuedMost = 6;
  std::vector<Cell> order = library_cells();
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  std::set<std::tuple<std::string, std::int32_t, std::int32_t>> seen;
  std::vector<Cell> sample, queued;
  for (const Cell& cell : order) {
    if (cell.queued) {
      if (queued.size() < kQueuedMost) queued.push_back(cell);
    } else if (seen.insert(
                       {settings_of(cell).front().second, cell.microbatches, cell.greedy ? 1 : 0})
                   .second) {
      sample.push_back(cell);
    }
  }
  sample.insert(sample.end(), queued.begin(), queued.end());
  return sample;
}

std::vector<Cell> tree_cells() {
  std::vector<Cell> cells;
  for (std::int32_t ranks : {1, 3, 8}) {
    for (const char* schedule : {"gpipe", "1f1b", "interleaved_1f1b"}) {
      Cell cell = cell_of({schedule, false, ranks, 1}, 8);
      cell.reduction_blocks = 4;
      cells.push_back(cell);
    }
  }
  return cells;
}

std::vector<Cell> wide_cells(bool with_bf16) {
  std::vector<Cell> cells;
  for (const bool bf16 : {false, true}) {
    if (bf16 && !with_bf16) continue;
    for (const bool tied : {true, false}) {
      std::vector<Cell> three = {wide("1f1b", 1, 1), wide("gpipe", 2, 2),
                                 wide("interleaved_1f1b", 3, 3)};
      three[1].recompute = true;
      three[1].reverse_backward = true;
      three[2].queued = true;
      for (Cell& cell : three) {
        cell.bf16 = bf16;
        cell.tied = tied;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

std::vector<Cell> instruction_set_cells() {
  std::vector<Cell> cells = {cell_of({"1f1b", false, 4, 1}, 3), cell_of({"gpipe", false, 1, 1}, 8),
                             wide("1f1b", 1, 1)};
  cells[1].recompute = true;
  for (Cell& cell : cells) cell.avx2 = true;
  return cells;
}

std::vector<Cell> pairwise_sample(const std::vector<Cell>& cells, std::uint64_t seed) {
  std::vector<Cell> order = cells;
  std::mt19937_64 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  std::set<Pair> uncovered;
  for (const Cell& cell : order) {
    for (const Pair& pair : pairs_of(cell)) uncovered.insert(pair);
  }
  std::vector<Cell> sample;
  while (!uncovered.empty()) {
    const Cell* best = nullptr;
    std::int64_t best_gain = 0;
    for (const Cell& cell : order) {
      const auto pairs = pairs_of(cell);
      const std::int64_t gain = std::count_if(
          pairs.begin(), pairs.end(), [&](const Pair& pair) { return uncovered.count(pair) > 0; });
      if (gain > best_gain) best = &cell, best_gain = gain;
    }
    for (const Pair& pair : pairs_of(*best)) uncovered.erase(pair);
    sample.push_back(*best);
  }
  return sample;
}

std::vector<Mutation> mutations(bool with_bf16, bool with_avx512) {
  const Cell one = cell_of({"1f1b", false, 1, 1}, 3);
  const Cell four = cell_of({"1f1b", false, 4, 1}, 3);
  const Cell reversed = cell_of({"gpipe", true, 4, 1}, 3);
  std::vector<Cell> tree = {cell_of({"1f1b", false, 1, 1}, 8), cell_of({"1f1b", false, 8, 1}, 8)};
  for (Cell& cell : tree) cell.reduction_blocks = 4;
  std::vector<Cell> replicas = {cell_of({"1f1b", false, 1, 1}, 12),
                                cell_of({"dualpipe", false, 4, 1}, 12)};
  for (Cell& cell : replicas) cell.reduction_blocks = 6;
  Cell wide_reversed = wide("gpipe", 2, 1);
  wide_reversed.reverse_backward = true;
  const std::vector<Cell> threads = {wide("1f1b", 1, 1), wide("1f1b", 1, 3)};
  std::vector<Mutation> all = {
      {BrokenRule::kGemmBlocks, threads},
      {BrokenRule::kTokenBlocks, threads},
      {BrokenRule::kNormBlocks, {one, four}},
      {BrokenRule::kDropoutOrder, {one, four}},
      {BrokenRule::kAddingOrder, {one, reversed}},
      {BrokenRule::kFinishedSums, {wide("1f1b", 1, 1), wide_reversed}},
      {BrokenRule::kTreeShape, tree},
      {BrokenRule::kReplicaOrder, replicas},
      {BrokenRule::kTiedSum, {one, four}},
      {BrokenRule::kInitByStage, {one, four}},
  };
  if (with_avx512) {
    // A tail of 8 columns on vectors of 16, none on vectors of 8.
    std::vector<Cell> sets = {one, one};
    for (Cell& cell : sets) cell.vocabulary = 72;
    sets[1].avx2 = true;
    for (const BrokenRule rule :
         {BrokenRule::kNativeLanes, BrokenRule::kLibmTail, BrokenRule::kContraction})
      all.push_back({rule, sets});
  }
  if (with_bf16) {
    std::vector<Cell> rounding = {one, four};
    for (Cell& cell : rounding) cell.bf16 = true;
    all.push_back({BrokenRule::kBoundaryRounding, rounding});
  }
  return all;
}

}  // namespace headrace::same_bits
