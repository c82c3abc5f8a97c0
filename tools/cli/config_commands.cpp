#include "runtime/config/documents.hpp"
#include "runtime/config/load.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/plan.hpp"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace headrace::cli {
namespace {

struct CheckOptions {
  std::string path;
  std::vector<std::string> overrides;
  bool resolved = false;
  bool json = false;
};

nlohmann::ordered_json essentials(const config::Config& config) {
  nlohmann::ordered_json result;
  result["model"] = config::to_string(config.model.kind);
  result["layers"] = config.model.layers;
  result["width"] = config.model.width;
  result["ranks"] = config.pipeline.ranks;
  result["chunks"] = config.pipeline.chunks;
  result["stages"] = config.pipeline.ranks * config.pipeline.chunks;
  result["schedule"] = config.schedule.name;
  result["batch_size"] = config.batch.size;
  result["microbatch_size"] = config.batch.microbatch_size;
  result["microbatches"] = config.batch.microbatches();
  result["steps"] = config.run.steps;
  result["precision"] = config::to_string(config.run.precision);
  result["config_hash"] = config::config_hash(config);
  return result;
}

void print_essentials(const std::string& path, const config::Config& config) {
  const config::ModelConfig& model = config.model;
  std::cout << path << ": valid\n"
            << "model     " << config::to_string(model.kind) << ", " << model.layers
            << " layers of width " << model.width << ", context " << model.context
            << ", vocabulary " << model.vocabulary.size << "\n"
            << "pipeline  " << config.pipeline.ranks << " ranks x " << config.pipeline.chunks
            << " chunks, schedule " << config.schedule.name << " ("
            << config::to_string(config.schedule.policy) << ")\n"
            << "batch     " << config.batch.size << " sequences = " << config.batch.microbatches()
            << " microbatches x " << config.batch.microbatch_size << "\n"
            << "run       " << config.run.steps << " steps, "
            << config::to_string(config.run.precision) << ", recompute "
            << config::to_string(config.run.recompute) << "\n"
            << "hash      " << config::config_hash(config) << "\n";
}

void add_plan(nlohmann::ordered_json& result, const actors::Plan& plan) {
  result["partition"] = nlohmann::ordered_json::array();
  for (const auto& stage : plan.partition) {
    result["partition"].push_back(stages::to_string(stage));
  }
  result["memory_bytes"] = nlohmann::ordered_json::array();
  for (const actors::RankMemory& memory : plan.memory) {
    result["memory_bytes"].push_back(memory.total());
  }
  result["parameters"] = stages::parameter_count(plan.model);
}

// The problem is part of the result; only the exit code is left to say.
Status print_problem(const CheckOptions& options, const Status& problem) {
  nlohmann::ordered_json result;
  result["valid"] = false;
  result["problem"] = problem.message();
  result["file"] = options.path;
  std::cout << result.dump(2) << "\n";
  return {problem.code(), ""};
}

Status check(const CheckOptions& options) {
  const auto refuse = [&](const Status& problem) {
    return options.json ? print_problem(options, problem) : problem;
  };
  const auto loaded = config::load_config(options.path, options.overrides);
  if (!loaded) return refuse(loaded.status());
  const auto plan = plan_of(options.path, *loaded);
  if (!plan) return refuse(plan.status());
  if (options.json) {
    nlohmann::ordered_json result;
    result["valid"] = true;
    result.update(essentials(*loaded));
    add_plan(result, *plan);
    result["file"] = options.path;
    std::cout << result.dump(2) << "\n";
  } else if (options.resolved) {
    std::cout << config::resolved_yaml(*loaded);
  } else {
    print_essentials(options.path, *loaded);
    std::cout << actors::describe(*plan);
  }
  return Status::ok();
}

void add_check(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("check", "Check a configuration file strictly");
  auto options = std::make_shared<CheckOptions>();
  command->add_option("CONFIG", options->path, "The YAML file")->required();
  command->add_option("--set", options->overrides, "section.key=value, under the same rules")
      ->allow_extra_args(false);
  CLI::Option* resolved = command->add_flag("--resolved", options->resolved,
                                            "Print the whole configuration, defaults filled in");
  command->add_flag("--json", options->json, "Print the result as JSON")->excludes(resolved);
  command->callback([options, &chosen] { chosen.run = [options] { return check(*options); }; });
}

void add_document(CLI::App& group, ChosenCommand& chosen, const std::string& name,
                  const std::string& sentence, std::string (*document)()) {
  CLI::App* command = group.add_subcommand(name, sentence);
  command->callback([document, &chosen] {
    chosen.run = [document] {
      std::cout << document();
      return Status::ok();
    };
  });
}

}  // namespace

void add_config_commands(CLI::App& app, ChosenCommand& chosen) {
  CLI::App* group = app.add_subcommand("config", "Check configurations, describe their keys");
  group->require_subcommand(1);
  add_check(*group, chosen);
  add_document(*group, chosen, "reference", "Print the reference of all keys as Markdown",
               config::reference_markdown);
  add_document(*group, chosen, "schema", "Print the JSON Schema for editors", config::json_schema);
}

}  // namespace headrace::cli
