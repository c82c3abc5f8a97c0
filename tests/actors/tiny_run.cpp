#include "tests/actors/tiny_run.hpp"

#include "runtime/config/load.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>

namespace headrace::actors::testing {
namespace {

std::string describe(const char* what, std::int64_t step, double a, double b) {
  return std::string(what) + " of step " + std::to_string(step) + ": " + std::to_string(a) +
         " and " + std::to_string(b);
}

bool same_bits(double a, double b) {
  return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

// Empty when both runs ended well after the same number of steps.
std::string unlike(const RunResult& a, const RunResult& b) {
  if (!a.status || !b.status) return a.status.message() + " / " + b.status.message();
  if (a.steps.empty() && a.state_lines.empty()) return "neither steps nor state";
  if (a.steps.size() == b.steps.size()) return "";
  return std::to_string(a.steps.size()) + " and " + std::to_string(b.steps.size()) + " steps";
}

}  // namespace

config::Config tiny_config() {
  config::Config config;
  config.model.layers = 4;
  config.model.width = 32;
  config.model.heads = 4;
  config.model.context = 16;
  config.model.vocabulary = {false, 64};
  config.batch.size = 8;
  config.batch.microbatch_size = 1;
  config.optimizer.learning_rate = 0.01;
  config.optimizer.weight_decay = 0.1;
  config.run.steps = 3;
  config.run.seed = 7;
  config.run.action_timeout_seconds = 30;
  config.data.train = "unset";
  return config;
}

std::vector<std::uint16_t> tiny_tokens(std::size_t count) {
  std::vector<std::uint16_t> tokens(count);
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    const bool noise = (state >> 24) % 4 == 0;
    tokens[i] = static_cast<std::uint16_t>(noise ? (state >> 16) % 60 : (i * 7) % 60);
  }
  return tokens;
}

Plan plan_of(config::Config config, BrokenRule rule) {
  auto finished = config::finish_config(std::move(config));
  REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
  auto plan = make_plan(*finished, rule);
  REQUIRE_MESSAGE(plan.is_ok(), plan.status().message());
  return *std::move(plan);
}

Plan plan_with_layer(config::Config config, std::size_t stage, const char* kind) {
  const auto one = [](const char* name) { return config::LayerRun{name, 1, {}}; };
  config.pipeline.ranks = 3;
  config.stages = {{{one("embedding"), one("block")}, false},
                   {{{"block", 2, {}}}, false},
                   {{one("block"), one("norm"), one("head")}, false}};
  auto finished = config::finish_config(std::move(config));
  REQUIRE_MESSAGE(finished.is_ok(), finished.status().message());
  auto& layers = finished->stages[stage].layers;
  layers.insert(layers.begin() + (stage == 0 ? 1 : 0), one(kind));
  auto plan = make_plan(*finished);
  REQUIRE_MESSAGE(plan.is_ok(), plan.status().message());
  return *std::move(plan);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

RunResult TinyData::run(config::Config config, const RunOptions& options) const {
  return run(plan_of(std::move(config)), options);
}

RunResult TinyData::run(const Plan& plan, const RunOptions& options) const {
  Plan with_data = plan;
  with_data.config.data.train = path_;
  return train(with_data, options);
}

std::string difference(const RunResult& a, const RunResult& b) {
  std::string text = unlike(a, b);
  for (std::size_t i = 0; i < a.steps.size() && text.empty(); ++i) {
    const StepRecord& x = a.steps[i];
    const StepRecord& y = b.steps[i];
    if (x.step != y.step) text = describe("number", x.step.value, 0, 0);
    if (!same_bits(x.loss, y.loss)) text = describe("loss", x.step.value, x.loss, y.loss);
    if (!same_bits(x.grad_norm, y.grad_norm))
      text = describe("norm", x.step.value, x.grad_norm, y.grad_norm);
    if (!same_bits(x.learning_rate, y.learning_rate))
      text = describe("learning rate", x.step.value, x.learning_rate, y.learning_rate);
  }
  if (!text.empty()) return text;
  if (a.state_lines.size() != b.state_lines.size()) return "numbers of state lines";
  for (std::size_t i = 0; i < a.state_lines.size(); ++i) {
    if (a.state_lines[i] != b.state_lines[i])
      return "state: " + a.state_lines[i] + " and " + b.state_lines[i];
  }
  return a.state_hash == b.state_hash && !a.state_hash.empty() ? "" : "state hash";
}

std::string distance_beyond(const RunResult& a, const RunResult& b, double tolerance) {
  std::string text = unlike(a, b);
  for (std::size_t i = 0; i < a.steps.size() && text.empty(); ++i) {
    const StepRecord& x = a.steps[i];
    const StepRecord& y = b.steps[i];
    if (!(std::abs(x.loss - y.loss) <= tolerance * std::abs(x.loss)))
      text = describe("loss", x.step.value, x.loss, y.loss);
    if (!(std::abs(x.grad_norm - y.grad_norm) <= tolerance * std::abs(x.grad_norm)))
      text = describe("norm", x.step.value, x.grad_norm, y.grad_norm);
  }
  return text;
}

}  // namespace headrace::actors::testing
