#include "tests/stages/reference_model.hpp"

#include <cmath>

namespace headrace::stages::test {
namespace {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

constexpr double kEpsilon = static_cast<double>(1e-5F);  // what the kernels are given

Row linear(const Weights& weights, const std::string& name, const Row& x) {
  const auto& matrix = weights.at(name + ".weight");
  const std::size_t out = matrix.size() / x.size();
  Row y(out);
  const auto bias = weights.find(name + ".bias");
  for (std::size_t o = 0; o < out; ++o) {
    y[o] = bias == weights.end() ? 0 : bias->second[o];
    for (std::size_t i = 0; i < x.size(); ++i) y[o] += matrix[o * x.size() + i] * x[i];
  }
  return y;
}

Row norm(const Weights& weights, const std::string& name, const Row& x, bool rms) {
  const auto& gain = weights.at(name + ".weight");
  double mean = 0, square = 0;
  const auto width = static_cast<double>(x.size());
  if (!rms) {
    for (const double v : x) mean += v / width;
  }
  for (const double v : x) square += (v - mean) * (v - mean) / width;
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(square + kEpsilon) * gain[i];
    if (!rms) y[i] += weights.at(name + ".bias")[i];
  }
  return y;
}

double gelu(double x, kernels::Activation kind) {
  if (kind == kernels::Activation::kGeluExact) return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
  const double inner = std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1 + std::tanh(inner));
}

// Rotates one head of a row, halves (i, i + D/2), by the angles of position t.
void rotate(double* head, std::int64_t width, std::int64_t t, double base) {
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double angle = static_cast<double>(t) *
                         std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
    const double a = head[i], b = head[i + width / 2];
    head[i] = a * std::cos(angle) - b * std::sin(angle);
    head[i + width / 2] = a * std::sin(angle) + b * std::cos(angle);
  }
}

// Rows of one sequence: q heads | k heads | v heads -> attention output.
Rows attention(const ModelSpec& model, Rows qkv) {
  const std::int64_t heads = model.heads;
  const std::int64_t kv_heads = model.kv_heads == 0 ? heads : model.kv_heads;
  const std::int64_t width = model.width / heads;
  if (model.kind == ModelKind::kLlama) {
    for (std::size_t t = 0; t < qkv.size(); ++t) {
      for (std::int64_t h = 0; h < heads + kv_heads; ++h) {
        rotate(&qkv[t][static_cast<std::size_t>(h * width)], width, static_cast<std::int64_t>(t),
               model.rope_base);
      }
    }
  }
  Rows out(qkv.size(), Row(static_cast<std::size_t>(heads * width), 0));
  for (std::size_t t = 0; t < qkv.size(); ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      const std::int64_t group = h / (heads / kv_heads);
      const double* q = &qkv[t][static_cast<std::size_t>(h * width)];
      Row score(t + 1);
      double total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        const double* k = &qkv[s][static_cast<std::size_t>((heads + group) * width)];
        double dot = 0;
        for (std::int64_t i = 0; i < width; ++i) dot += q[i] * k[i];
        score[s] = std::exp(dot / std::sqrt(static_cast<double>(width)));
        total += score[s];
      }
      for (std::size_t s = 0; s <= t; ++s) {
        const double* v = &qkv[s][static_cast<std::size_t>((heads + kv_heads + group) * width)];
        for (std::int64_t i = 0; i < width; ++i) {
          out[t][static_cast<std::size_t>(h * width + i)] += score[s] / total * v[i];
        }
      }
    }
  }
  return out;
}

Row activation(const ModelSpec& model, const Row& x) {
  if (model.kind != ModelKind::kLlama) {
    Row y(x);
    for (double& v : y) v = gelu(v, model.activation);
    return y;
  }
  Row y(x.size() / 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    y[i] = x[i] / (1 + std::exp(-x[i])) * x[i + y.size()];
  }
  return y;
}

void add(Row& x, const Row& branch) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += branch[i];
}

void block(const ModelSpec& model, const Weights& weights, std::int64_t number, Rows& x) {
  const std::string name = "block." + std::to_string(number) + ".";
  const bool llama = model.kind == ModelKind::kLlama;
  const bool attends = model.kind != ModelKind::kMlp;
  if (attends) {
    Rows qkv;
    for (const Row& row : x) {
      qkv.push_back(linear(weights, name + "attn.qkv", norm(weights, name + "norm1", row, llama)));
    }
    const Rows attended = attention(model, qkv);
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], linear(weights, name + "attn.proj", attended[t]));
    }
  }
  for (Row& row : x) {
    const Row normed = norm(weights, name + (attends ? "norm2" : "norm1"), row, llama);
    const Row up = linear(weights, name + (llama ? "mlp.gate_up" : "mlp.up"), normed);
    add(row, linear(weights, name + "mlp.down", activation(model, up)));
  }
}

double row_loss(const Row& logits, std::int32_t target) {
  if (target < 0) return 0;
  double total = 0;
  for (const double v : logits) total += std::exp(v);
  return std::log(total) - logits[static_cast<std::size_t>(target)];
}

}  // namespace

double reference_loss(const ModelSpec& model, const Weights& weights, const ReferenceBatch& batch) {
  const auto width = static_cast<std::size_t>(model.width);
  const auto& token = weights.at("embedding.token.weight");
  const std::string head = model.tied ? "embedding.token" : "head";
  double loss = 0;
  for (std::int64_t b = 0; b < batch.sequences; ++b) {
    const auto first = static_cast<std::size_t>(b * batch.positions);
    Rows x(static_cast<std::size_t>(batch.positions), Row(width));
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto id = static_cast<std::size_t>(batch.inputs[first + t]);
      for (std::size_t i = 0; i < width; ++i) {
        x[t][i] = token[id * width + i];
        if (model.kind != ModelKind::kLlama) {
          x[t][i] += weights.at("embedding.position.weight")[t * width + i];
        }
      }
    }
    for (std::int64_t l = 0; l < model.layers; ++l) block(model, weights, l, x);
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Row normed = norm(weights, "norm", x[t], model.kind == ModelKind::kLlama);
      loss += row_loss(linear(weights, head, normed), batch.targets[first + t]);
    }
  }
  return loss;
}

}  // namespace headrace::stages::test
