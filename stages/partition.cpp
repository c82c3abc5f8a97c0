#include "stages/partition.hpp"

#include "stages/layer.hpp"

#include <algorithm>
#include <limits>
#include <map>

namespace headrace::stages {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

Status refuse(const std::string& message) { return {StatusCode::kConfig, message}; }

std::string count_of(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

// Running sums over the layer list: cost and number of blocks of any run in O(1).
struct RunningSums {
  std::vector<double> cost{0.0};
  std::vector<std::int64_t> blocks{0};
  [[nodiscard]] std::size_t layers() const { return cost.size() - 1; }
};

Result<RunningSums> sum_costs(const ModelSpec& model, const MicrobatchShape& shape,
                              const std::vector<LayerSpec>& layers) {
  RunningSums sums;
  std::map<std::string, double> cost_of_kind;  // all blocks of a model cost the same
  for (const LayerSpec& spec : layers) {
    auto known = cost_of_kind.find(spec.kind);
    if (known == cost_of_kind.end()) {
      auto layer = make_layer({.model = model, .spec = spec});
      if (!layer.is_ok()) return layer.status();
      known = cost_of_kind.emplace(spec.kind, (*layer)->forward_flops(shape)).first;
    }
    sums.cost.push_back(sums.cost.back() + known->second);
    sums.blocks.push_back(sums.blocks.back() + (spec.kind == "block" ? 1 : 0));
  }
  return sums;
}

// Minimises the largest stage cost, and under it the sum of the squared costs, so that stages which
// the largest one leaves free are even among themselves. [left][i] is the best that layers i.. can
// do in `left` stages.
class Balancer {
 public:
  Balancer(const RunningSums& sums, std::int32_t stages, bool block_each)
      : sums_(sums), stages_(static_cast<std::size_t>(stages)), block_each_(block_each) {}

  // End of each stage.
  [[nodiscard]] std::vector<std::size_t> ends() const {
    const double limit = least_largest();
    const Table squares = least_squares(limit);
    // Ties: earlier stages take as few layers as the optimum allows.
    std::vector<std::size_t> ends;
    std::size_t first = 0;
    for (std::size_t left = stages_; left > 0; --left) {
      first = even_end(first, squares[left - 1], limit).end;
      ends.push_back(first);
    }
    return ends;
  }

 private:
  using Table = std::vector<std::vector<double>>;
  struct Choice {
    std::size_t end = 0;
    double squares = kImpossible;
  };

  [[nodiscard]] double least_largest() const {
    const std::size_t layers = sums_.layers();
    std::vector<double> worst(layers + 1, kImpossible);
    worst[layers] = 0;
    for (std::size_t left = 1; left <= stages_; ++left) {
      std::vector<double> next(layers + 1, kImpossible);
      for (std::size_t first = 0; first < layers; ++first) next[first] = best_from(first, worst);
      worst = std::move(next);
    }
    return worst[0];
  }
  [[nodiscard]] Table least_squares(double limit) const {
    const std::size_t layers = sums_.layers();
    Table squares(stages_ + 1, std::vector<double>(layers + 1, kImpossible));
    squares[0][layers] = 0;
    for (std::size_t left = 1; left <= stages_; ++left) {
      // Only where the stages before can have come and the stages left can finish.
      const double before = limit * static_cast<double>(stages_ - left);
      const double after = limit * static_cast<double>(left);
      for (std::size_t first = 0; first < layers && sums_.cost[first] <= before; ++first) {
        if (sums_.cost[layers] - sums_.cost[first] > after) continue;
        squares[left][first] = even_end(first, squares[left - 1], limit).squares;
      }
    }
    return squares;
  }
  [[nodiscard]] Choice even_end(std::size_t first, const std::vector<double>& rest,
                                double limit) const {
    Choice best;
    for (std::size_t end = first + 1; end <= sums_.layers(); ++end) {
      const double own = sums_.cost[end] - sums_.cost[first];
      if (own > limit || own * own >= best.squares) break;
      if (block_each_ && sums_.blocks[end] == sums_.blocks[first]) continue;
      if (own * own + rest[end] < best.squares) best = {end, own * own + rest[end]};
    }
    return best;
  }
  // Cost when a stage holds [first, end) and the rest does its best.
  [[nodiscard]] double cost(std::size_t first, std::size_t end,
                            const std::vector<double>& rest) const {
    if (block_each_ && sums_.blocks[end] == sums_.blocks[first]) return kImpossible;
    return std::max(sums_.cost[end] - sums_.cost[first], rest[end]);
  }
  // The stage's own cost rises with its end and the rest's falls, so the best end is where they
  // cross: the first end at which the rest is no longer the larger one, or the end before it.
  [[nodiscard]] double best_from(std::size_t first, const std::vector<double>& rest) const {
    std::size_t low = first + 1, high = sums_.layers();
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (falls_behind(first, middle, rest)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    double best = cost(first, low, rest);
    if (low > first + 1) best = std::min(best, cost(first, low - 1, rest));
    return best;
  }
  [[nodiscard]] bool falls_behind(std::size_t first, std::size_t end,
                                  const std::vector<double>& rest) const {
    if (block_each_ && sums_.blocks[end] == sums_.blocks[first]) return false;
    // Impossible means too few layers are left for the stages to come, so the end is too late; only
    // when no stage is to come it means that layers are left over.
    if (rest[end] == kImpossible) return rest.back() == kImpossible;
    return sums_.cost[end] - sums_.cost[first] >= rest[end];
  }
  const RunningSums& sums_;
  std::size_t stages_;
  bool block_each_;
};

// Requested stages, checked one entry at a time.
class RequestReader {
 public:
  explicit RequestReader(const ModelSpec& model) : model_(model) {}

  Status read(const StageRequest& request, std::size_t stage) {
    if (request.layers.empty()) return refuse(where(stage) + "holds no layer; leave it out");
    partition_.emplace_back();
    for (const LayerRun& run : request.layers) {
      if (run.count < 1) {
        return refuse(where(stage) + "'" + run.kind + "*" + std::to_string(run.count) +
                      "': a count is at least 1");
      }
      HEADRACE_RETURN_IF_ERROR(check_kind(run.kind, stage));
      HEADRACE_RETURN_IF_ERROR(check_place(run.kind, stage));
      for (std::int64_t i = 0; i < run.count; ++i) append(run.kind, request.frozen);
    }
    return Status::ok();
  }

  Result<Partition> finish() {
    for (const char* kind : {"embedding", "norm", "head"}) {
      if (counts_[kind] != 1) {
        return refuse("stages: " + std::to_string(counts_[kind]) + " '" + kind +
                      "' layers, expected exactly 1");
      }
    }
    if (counts_["block"] != model_.layers) {
      return refuse("stages: " + count_of(counts_["block"], "block") +
                    " in all stages together, the model has " + std::to_string(model_.layers) +
                    "; make the sum equal model.layers");
    }
    return freeze_tied();
  }

 private:
  static std::string where(std::size_t stage) {
    return "stages: stage " + std::to_string(stage) + ": ";
  }

  Status check_kind(const std::string& kind, std::size_t stage) {
    if (counts_.count(kind) != 0) return Status::ok();
    const std::vector<std::string> kinds = layer_kinds();
    if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) return Status::ok();
    const auto layer = make_layer({.model = model_, .spec = {.kind = kind}});
    return refuse(where(stage) + layer.status().message());
  }

  // embedding, then blocks and kinds of the user, then norm, then head.
  Status check_place(const std::string& kind, std::size_t stage) const {
    if ((kind == "embedding") != (layers_ == 0)) {
      return refuse(where(stage) + "the first layer of a model is 'embedding', found '" + kind +
                    "' as layer " + std::to_string(layers_));
    }
    const bool norm_seen = counts_.at("norm") > 0;
    if (counts_.at("head") > 0 || (norm_seen && kind != "head") || (kind == "head" && !norm_seen)) {
      return refuse(where(stage) + "'" + kind +
                    "' is out of order; the order is embedding, blocks, norm, head");
    }
    return Status::ok();
  }

  void append(const std::string& kind, bool frozen) {
    partition_.back().push_back({.kind = kind,
                                 .index = LayerIndex(static_cast<std::int32_t>(layers_)),
                                 .number = counts_[kind],
                                 .frozen = frozen});
    ++counts_[kind];
    ++layers_;
  }

  // A tied matrix trains or it does not. The head has no other parameter, so that it follows a
  // frozen embedding; an embedding also has positions, so that it cannot follow the head.
  Result<Partition> freeze_tied() {
    LayerSpec& head = partition_.back().back();
    const bool embedding_frozen = partition_.front().front().frozen;
    if (!model_.tied || head.frozen == embedding_frozen) return std::move(partition_);
    if (!embedding_frozen) {
      return refuse(
          "stages: the head is frozen and the embedding is not, but they share one matrix; freeze "
          "the embedding's stage too, or set model.tied: false");
    }
    head.frozen = true;
    return std::move(partition_);
  }

  const ModelSpec& model_;
  Partition partition_;
  std::map<std::string, std::int64_t> counts_{
      {"embedding", 0}, {"block", 0}, {"norm", 0}, {"head", 0}};
  std::int64_t layers_ = 0;
};

}  // namespace

Result<Partition> automatic_partition(const ModelSpec& model, const MicrobatchShape& shape,
                                      std::int32_t stages) {
  const std::vector<LayerSpec> layers = layer_list(model);
  if (stages < 1 || static_cast<std::size_t>(stages) > layers.size()) {
    return refuse("pipeline: " + count_of(stages, "stage") + " for " +
                  count_of(static_cast<std::int64_t>(layers.size()), "layer") + " (embedding, " +
                  count_of(model.layers, "block") +
                  ", norm, head); use 1 to as many stages as layers");
  }
  const auto sums = sum_costs(model, shape, layers);
  if (!sums.is_ok()) return sums.status();
  const Balancer balancer(*sums, stages, /*block_each=*/model.layers >= stages);
  Partition partition;
  std::size_t first = 0;
  for (const std::size_t end : balancer.ends()) {
    partition.emplace_back(layers.begin() + static_cast<std::ptrdiff_t>(first),
                           layers.begin() + static_cast<std::ptrdiff_t>(end));
    first = end;
  }
  HEADRACE_CHECK(first == layers.size(), first, layers.size());
  return partition;
}

Result<Partition> requested_partition(const ModelSpec& model,
                                      std::span<const StageRequest> requests) {
  if (requests.empty()) return refuse("stages: the list is empty; leave the key out instead");
  RequestReader reader(model);
  for (std::size_t stage = 0; stage < requests.size(); ++stage) {
    HEADRACE_RETURN_IF_ERROR(reader.read(requests[stage], stage));
  }
  return reader.finish();
}

Result<std::vector<StageWork>> stage_work(const ModelSpec& model, const MicrobatchShape& shape,
                                          const Partition& partition) {
  std::vector<StageWork> work;
  for (const std::vector<LayerSpec>& stage : partition) {
    StageWork sum;
    for (const LayerSpec& spec : stage) {
      const auto layer = make_layer({.model = model, .spec = spec});
      if (!layer.is_ok()) return layer.status();
      const double forward = (*layer)->forward_flops(shape);
      double products = 0;
      for (const ParameterSpec& parameter : (*layer)->parameters()) {
        if (!parameter.is_matrix() || !parameter.gemm) continue;
        products += 2.0 * static_cast<double>(shape.rows() * parameter.count());
      }
      const double rest = std::max(0.0, forward - products);
      sum.forward += forward;
      sum.backward_input += products + 2 * rest + (model.recompute ? forward : 0);
      sum.backward_weight += spec.frozen ? 0 : products;
    }
    work.push_back(sum);
  }
  return work;
}

std::string to_string(const std::vector<LayerSpec>& stage) {
  std::string text;
  for (std::size_t i = 0; i < stage.size();) {
    std::size_t end = i + 1;
    while (end < stage.size() && stage[end].kind == stage[i].kind) ++end;
    if (!text.empty()) text += ' ';
    text += stage[i].kind;
    const bool numbered =
        stage[i].kind != "embedding" && stage[i].kind != "norm" && stage[i].kind != "head";
    if (numbered) text.append(".").append(std::to_string(stage[i].number));
    if (end - i > 1) text.append("-").append(std::to_string(stage[end - 1].number));
    i = end;
  }
  return text;
}

}  // namespace headrace::stages
