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

Status check_as_json(const CheckOptions& options, const Result<config::Config>& loaded) {
  nlohmann::ordered_json result;
  result["valid"] = loaded.is_ok();
  if (loaded.is_ok()) {
    result.update(essentials(*loaded));
  } else {
    result["problem"] = loaded.status().message();
  }
  result["file"] = options.path;
  std::cout << result.dump(2) << "\n";
  // The problem is part of the result; only the exit code is left to say.
  return loaded.is_ok() ? Status::ok() : Status{loaded.status().code(), ""};
}

Status check(const CheckOptions& options) {
  const Result<config::Config> loaded = config::load_config(options.path, options.overrides);
  if (options.json) return check_as_json(options, loaded);
  if (!loaded.is_ok()) return loaded.status();
  if (options.resolved) {
    std::cout << config::resolved_yaml(*loaded);
    return Status::ok();
  }
  print_essentials(options.path, *loaded);
  std::cout.flush();
  return print_plan(*loaded);
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
