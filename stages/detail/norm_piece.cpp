#include "stages/detail/norm_piece.hpp"

namespace headrace::stages {

NormPiece::NormPiece(const NormOptions& options, std::vector<ParameterSpec>& parameters)
    : options_(options), gain_index_(parameters.size()) {
  parameters.push_back(
      {.name = options_.name + ".weight", .shape = {options_.width}, .init = InitKind::kOnes});
  if (!options_.rms) {
    parameters.push_back(
        {.name = options_.name + ".bias", .shape = {options_.width}, .init = InitKind::kZeros});
  }
}

NormStatistics NormPiece::carve_statistics(Carver& arena, std::int64_t rows) const {
  NormStatistics statistics;
  if (!options_.rms) statistics.mean = arena.array<float>(rows);
  statistics.rstd = arena.array<float>(rows);
  return statistics;
}

NormParts NormPiece::carve_parts(Carver& arena) const {
  NormParts parts;
  parts.gain = arena.array<float>(options_.width);
  if (!options_.rms) parts.bias = arena.array<float>(options_.width);
  return parts;
}

void NormPiece::forward(const LayerCall& call, kernels::ConstRef x, kernels::Ref y,
                        const NormStatistics& statistics) const {
  kernels::NormForwardArgs args;
  args.x = x;
  args.gain = call.parameters[gain_index_].weight;
  args.bias = options_.rms ? nullptr : call.parameters[gain_index_ + 1].weight;
  args.y = y;
  args.mean = statistics.mean;
  args.rstd = statistics.rstd;
  args.rows = call.shape.rows();
  args.width = options_.width;
  call.operators.norm_forward(call.stream, args);
}

void NormPiece::backward_input(const LayerCall& call, const Backward& backward) const {
  const bool trains = call.parameters[gain_index_].gradient != nullptr;
  kernels::NormBackwardArgs args;
  args.x = backward.x;
  args.dy = backward.dy;
  args.gain = call.parameters[gain_index_].weight;
  args.mean = backward.statistics.mean;
  args.rstd = backward.statistics.rstd;
  args.residual = backward.residual;
  args.dx = backward.dx;
  args.dgain_part = trains ? backward.parts.gain : nullptr;
  args.dbias_part = trains ? backward.parts.bias : nullptr;
  args.rows = call.shape.rows();
  args.width = options_.width;
  call.operators.norm_backward(call.stream, args);
}

void NormPiece::backward_weight(const LayerCall& call, const NormParts& parts) const {
  float* gain = call.parameters[gain_index_].gradient;
  call.operators.add(call.stream, gain, parts.gain, gain, options_.width);
  if (options_.rms) return;
  float* bias = call.parameters[gain_index_ + 1].gradient;
  call.operators.add(call.stream, bias, parts.bias, bias, options_.width);
}

double NormPiece::forward_flops(std::int64_t rows) const {
  constexpr double kFlopsPerElement = 8;
  return kFlopsPerElement * static_cast<double>(rows) * static_cast<double>(options_.width);
}

}  // namespace headrace::stages
