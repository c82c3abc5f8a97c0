// The layer kinds every model is made of.
//
// What it is for: their factories, for the registry. What it does not do: look kinds up. Thread
// rule: free functions.
#pragma once

#include "stages/layer.hpp"

#include <memory>

namespace headrace::stages {

[[nodiscard]] std::unique_ptr<Layer> make_embedding_layer(const LayerOptions& options);
[[nodiscard]] std::unique_ptr<Layer> make_block_layer(const LayerOptions& options);
[[nodiscard]] std::unique_ptr<Layer> make_norm_layer(const LayerOptions& options);
[[nodiscard]] std::unique_ptr<Layer> make_head_layer(const LayerOptions& options);

}  // namespace headrace::stages
