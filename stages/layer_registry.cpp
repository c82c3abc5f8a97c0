// The registry is the one table of this library that a program changes: kinds are added before the
// first model is built and never removed, so that reading it needs no lock.
#include "stages/detail/builtin_layers.hpp"
#include "stages/layer.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace headrace::stages {
namespace {

struct Registry {
  std::map<std::string, LayerFactory, std::less<>> factories;
};

Registry& registry() {
  static Registry instance{.factories = {{"embedding", make_embedding_layer},
                                         {"block", make_block_layer},
                                         {"norm", make_norm_layer},
                                         {"head", make_head_layer}}};
  return instance;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string nearest_kind(std::string_view kind, const Registry& kinds) {
  std::string nearest;
  std::size_t least = kind.size() + 1;
  for (const auto& [name, factory] : kinds.factories) {
    const std::size_t distance = edit_distance(kind, name);
    if (nearest.empty() || distance < least) {
      nearest = name;
      least = distance;
    }
  }
  return nearest;
}

}  // namespace

Status register_layer_kind(std::string_view kind, LayerFactory factory) {
  Registry& kinds = registry();
  if (!kinds.factories.emplace(std::string(kind), std::move(factory)).second) {
    return {StatusCode::kConfig,
            "layer kind '" + std::string(kind) + "' is already registered; choose another name"};
  }
  return Status::ok();
}

Result<std::unique_ptr<Layer>> make_layer(const LayerOptions& options) {
  const Registry& kinds = registry();
  const auto found = kinds.factories.find(options.spec.kind);
  if (found == kinds.factories.end()) {
    return Status(StatusCode::kConfig, "unknown layer kind '" + options.spec.kind +
                                           "'; the nearest known one is '" +
                                           nearest_kind(options.spec.kind, kinds) + "'");
  }
  return found->second(options);
}

std::vector<std::string> layer_kinds() {
  Registry& kinds = registry();
  std::vector<std::string> names;
  for (const auto& [name, factory] : kinds.factories) names.push_back(name);
  return names;
}

}  // namespace headrace::stages
