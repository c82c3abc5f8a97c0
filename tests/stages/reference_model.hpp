// The models of stages/ written again, plainly, in double precision and forward only.
//
// What it is for: central differences of its loss are gradients that no backward code has touched.
// What it does not do: dropout, speed. Thread rule: a pure function.
#pragma once

#include "stages/model.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace headrace::stages::test {

using Weights = std::map<std::string, std::vector<double>>;

struct ReferenceBatch {
  std::int64_t sequences = 0, positions = 0;
  std::vector<std::int32_t> inputs, targets;  // [sequences, positions]; target -1: ignored
};

// Summed cross-entropy over all rows with a target.
[[nodiscard]] double reference_loss(const ModelSpec& model, const Weights& weights,
                                    const ReferenceBatch& batch);

}  // namespace headrace::stages::test
