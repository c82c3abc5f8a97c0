#include "stages/detail/stage_plan.hpp"

#include "stages/detail/carver.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

namespace headrace::stages {
namespace {

constexpr std::int64_t kFloatBytes = sizeof(float);
constexpr std::int64_t kMirrorBytes = 2;

// Elements of an array in an arena whose arrays all start aligned.
std::int64_t padded(std::int64_t elements, std::int64_t element_bytes = kFloatBytes) {
  return aligned_bytes(elements * element_bytes) / element_bytes;
}

std::string where(const StageOptions& options) {
  return "stage " + std::to_string(options.stage.value) + ": ";
}

Status check_options(const StageOptions& options) {
  HEADRACE_RETURN_IF_ERROR(check_model(options.model));
  const auto refuse = [&](const std::string& message) {
    return Status(StatusCode::kConfig, where(options) + message);
  };
  if (options.layers.empty()) return refuse("holds no layer");
  if (options.shape.batch < 1 || options.shape.positions < 1 ||
      options.shape.positions > options.model.context) {
    return refuse("microbatch of " + std::to_string(options.shape.batch) + " x " +
                  std::to_string(options.shape.positions) +
                  " tokens, expected at least 1 x 1 and " + "at most " +
                  std::to_string(options.model.context) + " positions (model.context)");
  }
  if (options.microbatches < 1 || options.reduction_blocks < 1 ||
      options.microbatches % options.reduction_blocks != 0) {
    return refuse(std::to_string(options.reduction_blocks) + " reduction blocks do not divide " +
                  std::to_string(options.microbatches) + " microbatches");
  }
  if (options.replicas < 1 || options.replica.value < 0 ||
      options.replica.value >= options.replicas ||
      options.reduction_blocks % options.replicas != 0) {
    return refuse(std::to_string(options.reduction_blocks) +
                  " reduction blocks cannot be shared evenly by " +
                  std::to_string(options.replicas) + " replicas of a stage");
  }
  for (std::size_t i = 1; i < options.layers.size(); ++i) {
    if (options.layers[i].index.value != options.layers[i - 1].index.value + 1) {
      return refuse("layers " + std::to_string(options.layers[i - 1].index.value) + " and " +
                    std::to_string(options.layers[i].index.value) + " are not consecutive");
    }
  }
  return Status::ok();
}

// Fills a plan in the order of the members below.
class Planner {
 public:
  explicit Planner(const StageOptions& options) : options_(options) {}

  Result<StagePlan> run() && {
    HEADRACE_RETURN_IF_ERROR(check_options(options_));
    HEADRACE_RETURN_IF_ERROR(make_layers());
    HEADRACE_RETURN_IF_ERROR(find_parameters());
    find_backward();
    share_blocks();
    place_parameters();
    place_frames();
    return std::move(plan_);
  }

 private:
  Status make_layers() {
    LayerOptions layer_options;
    layer_options.model = options_.model;
    // Without training there is no dropout: layers need not know the difference.
    if (!options_.training) layer_options.model.dropout = 0;
    layer_options.device = options_.device;
    layer_options.broken_rule = options_.broken_rule;
    for (const LayerSpec& spec : options_.layers) {
      layer_options.spec = spec;
      auto layer = make_layer(layer_options);
      if (!layer.is_ok()) {
        return {layer.status().code(), where(options_) + layer.status().message()};
      }
      PlannedLayer planned;
      planned.spec = spec;
      planned.layer = std::move(*layer);
      planned.bytes = planned.layer->bytes(options_.shape);
      plan_.layers.push_back(std::move(planned));
    }
    return Status::ok();
  }

  Status find_parameters() {
    for (PlannedLayer& layer : plan_.layers) {
      const auto& specs = layer.layer->parameters();
      if (static_cast<std::int64_t>(specs.size()) > kParametersPerLayerMax) {
        return {StatusCode::kConfig, where(options_) + "layer '" + layer.spec.kind +
                                         "' has more than " +
                                         std::to_string(kParametersPerLayerMax) + " parameters"};
      }
      for (std::size_t k = 0; k < specs.size(); ++k) {
        HEADRACE_RETURN_IF_ERROR(add_use(layer, specs[k], k));
      }
    }
    return Status::ok();
  }

  Status add_use(PlannedLayer& layer, const ParameterSpec& spec, std::size_t k) {
    const bool tied = is_tied_matrix(options_.model, spec.name);
    const bool wants_mirror =
        options_.model.precision == Precision::kBf16 && spec.is_matrix() && spec.gemm;
    const auto [known, is_first] = parameter_of_name_.emplace(spec.name, plan_.parameters.size());
    if (!is_first) {
      if (!tied) {
        return {StatusCode::kConfig,
                where(options_) + "two layers name a parameter '" + spec.name + "'"};
      }
      PlannedParameter& shared = plan_.parameters[known->second];
      shared.mirrored = shared.mirrored || wants_mirror;
      layer.uses.push_back({known->second, kNone});
      return Status::ok();
    }
    PlannedParameter parameter;
    parameter.spec = spec;
    // The head's matrix of a tied model is the embedding's first parameter, wherever it lives.
    parameter.order =
        tied ? parameter_order(LayerIndex(0), 0) : parameter_order(layer.spec.index, k);
    parameter.trainable = options_.training && !layer.spec.frozen;
    parameter.mirrored = wants_mirror;
    const bool other_end = tied && layer.spec.kind != "embedding";
    parameter.borrowed = other_end && options_.tied_embedding != nullptr;
    parameter.copy = other_end && options_.tied_embedding == nullptr;
    layer.uses.push_back({plan_.parameters.size(), kNone});
    plan_.parameters.push_back(std::move(parameter));
    return Status::ok();
  }

  // Backward stops where nothing below trains.
  void find_backward() {
    const bool first_stage = plan_.layers.front().spec.index.value == 0;
    plan_.gives_input_gradient = options_.training && options_.input_gradient && !first_stage;
    plan_.lowest_backward = plan_.layers.size();
    for (std::size_t i = plan_.layers.size(); i-- > 0;) {
      PlannedLayer& layer = plan_.layers[i];
      layer.trainable = std::any_of(
          layer.uses.begin(), layer.uses.end(),
          [&](const PlannedUse& use) { return plan_.parameters[use.parameter].trainable; });
      if (layer.trainable) plan_.lowest_backward = i;
    }
    if (plan_.gives_input_gradient) plan_.lowest_backward = 0;
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      plan_.layers[i].backward = i >= plan_.lowest_backward;
      plan_.layers[i].lent_frames = !plan_.layers[i].backward;
    }
  }

  void share_blocks() {
    const std::int32_t blocks = options_.reduction_blocks / options_.replicas;
    plan_.block_microbatches = options_.microbatches / options_.reduction_blocks;
    plan_.own_microbatches = options_.microbatches / options_.replicas;
    plan_.first_microbatch = options_.replica.value * plan_.own_microbatches;
    for (std::int32_t d = 0; d < options_.replicas; ++d)
      plan_.roots.push_back(roots_of({d * blocks, blocks}));
    plan_.accumulators = accumulators_for({options_.replica.value * blocks, blocks});
  }

  void place_parameters() {
    const OptimizerSpec& optimizer = options_.optimizer;
    plan_.moments = optimizer.kind == OptimizerKind::kAdamw ? 2 : optimizer.momentum != 0 ? 1 : 0;
    for (PlannedParameter& parameter : plan_.parameters) {
      const std::int64_t elements = padded(parameter.spec.count());
      // A borrowed matrix lends its mirror to the embedding's stage, which keeps it in step.
      if (parameter.mirrored) {
        parameter.mirror_offset = plan_.mirror_elements;
        plan_.mirror_elements += padded(parameter.spec.count(), kMirrorBytes);
      }
      if (parameter.borrowed) continue;
      parameter.weight_offset = plan_.weight_elements;
      plan_.weight_elements += elements;
      if (!parameter.trainable || plan_.moments == 0) continue;
      parameter.moment_offset = plan_.moment_elements;
      plan_.moment_elements += elements;
    }
    for (PlannedLayer& layer : plan_.layers) {
      for (PlannedUse& use : layer.uses) {
        if (!plan_.parameters[use.parameter].trainable) continue;
        use.gradient_offset = plan_.gradient_elements;
        plan_.gradient_elements += padded(plan_.parameters[use.parameter].spec.count());
      }
    }
    plan_.bytes.parameters =
        plan_.weight_elements * kFloatBytes + plan_.mirror_elements * kMirrorBytes;
    plan_.bytes.gradients = plan_.gradient_elements * kFloatBytes * plan_.accumulators;
    if (options_.replicas > 1) {
      plan_.bytes.roots = plan_.gradient_elements * kFloatBytes *
                          static_cast<std::int64_t>(plan_.roots[options_.replica.index()].size());
    }
    plan_.bytes.optimizer = plan_.moment_elements * kFloatBytes * plan_.moments;
  }

  void place_frames() {
    // BrokenRule::kBoundaryRounding: values inside a stage stay unrounded.
    plan_.inner_type = options_.broken_rule == BrokenRule::kBoundaryRounding
                           ? kernels::DType::kF32
                           : boundary_dtype(options_.model);
    plan_.inner_bytes =
        aligned_bytes(options_.shape.rows() * options_.model.width *
                      static_cast<std::int64_t>(kernels::bytes_of(plan_.inner_type)));
    plan_.inner_values = plan_.layers.size() > 1 ? 2 : 0;
    std::int64_t workspace = 0;
    StageBytes& bytes = plan_.bytes;
    for (std::size_t i = 0; i < plan_.layers.size(); ++i) {
      PlannedLayer& layer = plan_.layers[i];
      // The output of a layer is the input of the next, which wants it until its own backward.
      layer.output_kept = i + 1 < plan_.layers.size() && plan_.layers[i + 1].backward;
      const std::int64_t stash = aligned_bytes(layer.bytes.stash);
      const std::int64_t forward = aligned_bytes(layer.bytes.weight_forward);
      workspace =
          std::max(workspace, layer.bytes.workspace + (layer.lent_frames ? stash + forward : 0));
      if (!layer.lent_frames) {
        layer.stash_offset = bytes.stash;
        bytes.stash += stash;
        layer.weight_forward_offset = bytes.weight_forward;
        bytes.weight_forward += forward;
        layer.weight_backward_offset = bytes.weight_backward;
        bytes.weight_backward += aligned_bytes(layer.bytes.weight_backward);
      }
      if (layer.output_kept) {
        layer.output_offset = bytes.stash;
        bytes.stash += plan_.inner_bytes;
      }
      layer.first_check = plan_.checks_per_microbatch;
      plan_.checks_per_microbatch += 2 + static_cast<std::int64_t>(layer.uses.size());
    }
    bytes.workspace = plan_.inner_values * plan_.inner_bytes + aligned_bytes(workspace);
  }

  const StageOptions& options_;
  StagePlan plan_;
  std::unordered_map<std::string, std::size_t> parameter_of_name_;  // index in plan_.parameters
};

}  // namespace

bool is_tied_matrix(const ModelSpec& model, const std::string& name) {
  return model.tied && name == "embedding.token.weight";
}

Result<StagePlan> make_plan(const StageOptions& options) { return Planner(options).run(); }

std::int64_t StageBytes::total(const FrameCapacity& frames) const {
  return parameters + gradients + optimizer + stash * frames.stash +
         weight_forward * frames.activation + weight_backward * frames.weight_inputs;
}

Result<StageBytes> stage_bytes(const StageOptions& options) {
  auto plan = make_plan(options);
  if (!plan.is_ok()) return plan.status();
  return plan->bytes;
}

}  // namespace headrace::stages
