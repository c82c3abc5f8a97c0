// Which layers form which stage.
//
// What it is for: the automatic split balanced by cost, and the check of a user's own. Layers never
// vanish: every accepted partition holds each layer of the model exactly once, in order.
// What it does not do: place stages on ranks. Thread rule: pure functions.
#pragma once

#include "runtime/base/status.hpp"
#include "stages/model.hpp"

#include <span>
#include <string>
#include <vector>

namespace headrace::stages {

using Partition = std::vector<std::vector<LayerSpec>>;  // [stage] -> its layers

// A user's entry: `block*3` is {"block", 3}.
struct LayerRun {
  std::string kind;
  std::int64_t count = 1;
};
struct StageRequest {
  std::vector<LayerRun> layers;
  bool frozen = false;
};

// Contiguous split into `stages` parts that minimises the largest stage cost and then the sum of
// the squared costs (exact dynamic programmes; ties: earlier stages take fewer). Every stage holds
// at least one layer; when there are enough blocks, at least one block. kConfig with the numbers
// when stages > layers in the list.
[[nodiscard]] Result<Partition> automatic_partition(const ModelSpec& model,
                                                    const MicrobatchShape& shape,
                                                    std::int32_t stages);
// kConfig with the numbers ("31 blocks in stages, the model has 30"), naming the stage.
[[nodiscard]] Result<Partition> requested_partition(const ModelSpec& model,
                                                    std::span<const StageRequest> requests);
// What a microbatch costs a stage, in floating-point operations: the estimate that balances stages
// and that a search for an order starts from. A product with a weight matrix costs F, I and W the
// same; what has no weights (attention's core) costs nothing in W and twice in I.
struct StageWork {
  double forward = 0;
  double backward_input = 0;
  double backward_weight = 0;
};
[[nodiscard]] Result<std::vector<StageWork>> stage_work(const ModelSpec& model,
                                                        const MicrobatchShape& shape,
                                                        const Partition& partition);
// e.g. "embedding block.0-1" per stage.
[[nodiscard]] std::string to_string(const std::vector<LayerSpec>& stage);

}  // namespace headrace::stages
