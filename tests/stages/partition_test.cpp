#include "stages/partition.hpp"

#include "stages/layer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace headrace::stages {
namespace {

constexpr MicrobatchShape kShape{2, 16};

ModelSpec model_of(std::int64_t layers) {
  ModelSpec model;
  model.layers = layers;
  model.width = 16;
  model.heads = 2;
  model.hidden = 64;
  model.context = 16;
  model.vocabulary = 100;
  return model;
}

void check_holds_every_layer(const ModelSpec& model, const Partition& partition) {
  const std::vector<LayerSpec> all = layer_list(model);
  std::vector<LayerSpec> held;
  for (const auto& stage : partition) {
    CHECK_FALSE(stage.empty());
    held.insert(held.end(), stage.begin(), stage.end());
  }
  REQUIRE(held.size() == all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    CHECK(held[i].kind == all[i].kind);
    CHECK(held[i].index == all[i].index);
    CHECK(held[i].number == all[i].number);
  }
}

std::int64_t blocks_in(const std::vector<LayerSpec>& stage) {
  return std::count_if(stage.begin(), stage.end(),
                       [](const LayerSpec& layer) { return layer.kind == "block"; });
}

double cost_of(const ModelSpec& model, const std::vector<LayerSpec>& stage) {
  double cost = 0;
  for (const LayerSpec& spec : stage) {
    cost += (*make_layer({.model = model, .spec = spec}))->forward_flops(kShape);
  }
  return cost;
}

// Every way to cut the list, by trying all ends: the least largest cost, then the least sum of
// squared costs (whole numbers, so exact), then the fewest layers in earlier stages.
struct Search {
  const ModelSpec& model;
  std::vector<LayerSpec> layers;
  std::int32_t stages;
  bool block_each;
  double best = std::numeric_limits<double>::infinity();
  double best_squares = std::numeric_limits<double>::infinity();
  std::vector<std::size_t> best_ends{};

  void run(std::vector<std::size_t>& ends, std::size_t first, double largest, double squares) {
    if (ends.size() == static_cast<std::size_t>(stages)) {
      const bool better = largest < best || (largest == best && squares < best_squares);
      if (first == layers.size() && better) {
        best = largest;
        best_squares = squares;
        best_ends = ends;
      }
      return;
    }
    for (std::size_t end = first + 1; end <= layers.size(); ++end) {
      const std::vector<LayerSpec> stage(layers.begin() + static_cast<std::ptrdiff_t>(first),
                                         layers.begin() + static_cast<std::ptrdiff_t>(end));
      if (block_each && blocks_in(stage) == 0) continue;
      ends.push_back(end);
      const double cost = cost_of(model, stage);
      run(ends, end, std::max(largest, cost), squares + cost * cost);
      ends.pop_back();
    }
  }
};

std::string refusal(const ModelSpec& model, const std::vector<StageRequest>& requests) {
  const auto partition = requested_partition(model, requests);
  CHECK(partition.status().code() == StatusCode::kConfig);
  return partition.status().message();
}

std::vector<StageRequest> request_blocks(const std::vector<std::int64_t>& blocks) {
  std::vector<StageRequest> requests;
  requests.reserve(blocks.size());
  for (const std::int64_t count : blocks) requests.push_back({{{"block", count}}});
  requests.front().layers.insert(requests.front().layers.begin(), {"embedding", 1});
  requests.back().layers.push_back({"norm", 1});
  requests.back().layers.push_back({"head", 1});
  return requests;
}

TEST_CASE("partition: the work of a stage follows its matrices and what has none") {
  ModelSpec model = model_of(4);
  Partition partition = *automatic_partition(model, kShape, 2);
  partition[1].back().frozen = true;  // the head
  const auto work = *stage_work(model, kShape, partition);
  REQUIRE(work.size() == 2);
  for (std::size_t s = 0; s < 2; ++s) CHECK(work[s].forward == cost_of(model, partition[s]));
  // Per block: qkv, out, up and down, 12 width^2 elements, two operations each, 32 rows.
  const double block = 2.0 * 32 * 12 * 16 * 16;
  CHECK(work[0].backward_weight == block * static_cast<double>(blocks_in(partition[0])));
  CHECK(work[1].backward_weight == block * static_cast<double>(blocks_in(partition[1])));
  CHECK(work[0].backward_input ==
        work[0].backward_weight + 2 * (work[0].forward - work[0].backward_weight));
  model.recompute = true;
  CHECK((*stage_work(model, kShape, partition))[0].backward_input ==
        work[0].backward_input + work[0].forward);
}

}  // namespace

TEST_CASE("partition: automatic splits of uneven models lose no layer - C14") {
  struct Case {
    std::int64_t layers;
    std::int32_t stages;
  };
  for (const Case& c : {Case{30, 4}, Case{6, 4}, Case{7, 4}, Case{80, 32}, Case{1, 1}, Case{3, 4},
                        Case{3, 6}, Case{30, 32}, Case{0, 3}, Case{1000, 500}}) {
    CAPTURE(c.layers);
    CAPTURE(c.stages);
    const ModelSpec model = model_of(c.layers);
    const auto partition = automatic_partition(model, kShape, c.stages);
    REQUIRE(partition.is_ok());
    CHECK(partition->size() == static_cast<std::size_t>(c.stages));
    check_holds_every_layer(model, *partition);
    for (const auto& stage : *partition) {
      if (c.layers >= c.stages) CHECK(blocks_in(stage) >= 1);
    }
  }
}

TEST_CASE("partition: more stages than layers are refused with the numbers - C14") {
  const auto partition = automatic_partition(model_of(3), kShape, 7);
  CHECK(partition.status().code() == StatusCode::kConfig);
  CHECK(partition.status().message() ==
        "pipeline: 7 stages for 6 layers (embedding, 3 blocks, norm, head); use 1 to as many "
        "stages as layers");
  CHECK_FALSE(automatic_partition(model_of(3), kShape, 0).is_ok());
}

TEST_CASE("partition: the automatic split is the best of all splits") {
  for (const std::int64_t vocabulary : {2, 100, 700, 5000}) {
    for (std::int64_t layers = 0; layers <= 6; ++layers) {
      ModelSpec model = model_of(layers);
      model.vocabulary = vocabulary;
      for (std::int32_t stages = 1; stages <= layers + 3; ++stages) {
        CAPTURE(vocabulary);
        CAPTURE(layers);
        CAPTURE(stages);
        Search search{.model = model,
                      .layers = layer_list(model),
                      .stages = stages,
                      .block_each = layers >= stages};
        std::vector<std::size_t> ends;
        search.run(ends, 0, 0, 0);
        const Partition partition = automatic_partition(model, kShape, stages).value();
        std::vector<std::size_t> found;
        for (const auto& stage : partition) {
          found.push_back((found.empty() ? 0 : found.back()) + stage.size());
        }
        CHECK(found == search.best_ends);
      }
    }
  }
}

TEST_CASE("partition: stages below the largest one are even among themselves") {
  ModelSpec model = model_of(80);
  const Partition partition = automatic_partition(model, kShape, 32).value();
  std::int64_t least = 80;
  std::int64_t most = 0;
  for (std::size_t s = 0; s + 1 < partition.size(); ++s) {
    least = std::min(least, blocks_in(partition[s]));
    most = std::max(most, blocks_in(partition[s]));
  }
  CHECK(least == 2);
  CHECK(most == 3);
}

TEST_CASE("partition: a heavy head gets fewer blocks beside it") {
  ModelSpec model = model_of(8);
  model.vocabulary = 2000;
  const Partition partition = automatic_partition(model, kShape, 2).value();
  CHECK(blocks_in(partition[0]) > blocks_in(partition[1]));
}

TEST_CASE("partition: requests of the user are checked by their sums - C14") {
  const ModelSpec model = model_of(30);
  const auto fits = requested_partition(model, request_blocks({10, 10, 9, 1}));
  REQUIRE(fits.is_ok());
  check_holds_every_layer(model, *fits);
  CHECK(refusal(model, request_blocks({10, 10, 10, 1})) ==
        "stages: 31 blocks in all stages together, the model has 30; make the sum equal "
        "model.layers");
  CHECK(refusal(model, request_blocks({10, 10, 9})).find("29 blocks") != std::string::npos);
  CHECK(refusal(model, request_blocks({10, 0, 20})) ==
        "stages: stage 1: 'block*0': a count is at least 1");
  CHECK(refusal(model, request_blocks({10, -1, 21})).find("'block*-1'") != std::string::npos);
  CHECK(refusal(model, {}).find("empty") != std::string::npos);
  CHECK(refusal(model, {{{{"embedding", 1}, {"block", 30}}}, {}}) ==
        "stages: stage 1: holds no layer; leave it out");
}

TEST_CASE("partition: layers out of place - missing or unknown are refused") {
  const ModelSpec model = model_of(2);
  CHECK(refusal(model, {{{{"block", 2}, {"norm", 1}, {"head", 1}}}}) ==
        "stages: stage 0: the first layer of a model is 'embedding', found 'block' as layer 0");
  CHECK(refusal(model, {{{{"embedding", 1}, {"block", 2}, {"head", 1}}}})
            .find("'head' is out of order") != std::string::npos);
  CHECK(refusal(model, {{{{"embedding", 1}, {"norm", 1}, {"block", 2}, {"head", 1}}}})
            .find("'block' is out of order") != std::string::npos);
  CHECK(refusal(model, {{{{"embedding", 1}, {"block", 2}, {"norm", 1}}}}) ==
        "stages: 0 'head' layers, expected exactly 1");
  CHECK(refusal(model, {{{{"embedding", 2}, {"block", 2}, {"norm", 1}, {"head", 1}}}}).empty() ==
        false);
  CHECK(refusal(model, {{{{"embedding", 1}, {"blok", 2}, {"norm", 1}, {"head", 1}}}}) ==
        "stages: stage 0: unknown layer kind 'blok'; the nearest known one is 'block'");
}

TEST_CASE("partition: a tied head follows a frozen embedding but not the other way") {
  ModelSpec model = model_of(2);
  model.tied = true;
  std::vector<StageRequest> requests = request_blocks({1, 1});
  requests[0].frozen = true;
  const Partition partition = requested_partition(model, requests).value();
  CHECK(partition[1].back().frozen);
  CHECK_FALSE(partition[1].front().frozen);
  requests[0].frozen = false;
  requests[1].frozen = true;
  CHECK(refusal(model, requests).find("share one matrix") != std::string::npos);
}

TEST_CASE("partition: stages print as their layers") {
  const ModelSpec model = model_of(4);
  CHECK(to_string(layer_list(model)) == "embedding block.0-3 norm head");
  const Partition partition = requested_partition(model, request_blocks({1, 3})).value();
  CHECK(to_string(partition[0]) == "embedding block.0");
  CHECK(to_string(partition[1]) == "block.1-3 norm head");
}

}  // namespace headrace::stages
