#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_facts.hpp"
#include "tools/cli/schedule_request.hpp"

#include <iostream>
#include <memory>

namespace headrace::cli {
namespace {

struct ExchangeOptions {
  ScheduleRequest request;
  std::string form = "compute-only";
  std::string out;
  bool send_waits = false;
};

std::string csv_of(const ExchangeOptions& options, const schedules::Program& program) {
  if (options.send_waits) return schedules::write_csv_with_waits(program);
  return schedules::write_csv(program, options.form == "compute-only"
                                           ? schedules::CsvForm::kComputeOnly
                                           : schedules::CsvForm::kComputeComms);
}

// One string per row, as in the file.
Json rows_json(const std::string& csv) {
  Json rows = Json::array();
  for (std::size_t begin = 0; begin < csv.size();) {
    const std::size_t end = csv.find('\n', begin);
    rows.push_back(csv.substr(begin, end - begin));
    begin = end + 1;
  }
  return rows;
}

Json result_json(const ExchangeOptions& options, const LoadedSchedule& loaded,
                 const std::string& csv) {
  Json result = sizes_json(loaded.program);
  result["form"] = options.form;
  result["peak_activations"] = loaded.facts.peak_activations;
  result["notes"] = loaded.notes;
  result["rows"] = rows_json(csv);
  return result;
}

Status exchange(const ExchangeOptions& options) {
  if (options.send_waits && options.form != "compute-comms") {
    return {StatusCode::kConfig,
            "--send-waits: a compute-only file has no sends to wait for; add --form compute-comms"};
  }
  const Result<LoadedSchedule> loaded = load_schedule(options.request);
  if (!loaded) return loaded.status();
  const std::string csv = csv_of(options, loaded->program);
  if (!options.out.empty()) HEADRACE_RETURN_IF_ERROR(write_text(options.out, csv));
  if (options.request.json) {
    std::cout << result_json(options, *loaded, csv).dump(2) << "\n";
    return Status::ok();
  }
  // Standard output is the file, so notes go beside it.
  for (const std::string& note : loaded->notes)
    std::cerr << options.request.source << ": " << note << "\n";
  if (options.out.empty()) std::cout << csv;
  return Status::ok();
}

void add_file_options(CLI::App& command, ExchangeOptions& options) {
  command
      .add_option("--form", options.form,
                  "compute-only (default), or compute-comms with sends and receives")
      ->check(CLI::IsMember({"compute-only", "compute-comms"}));
  command.add_flag("--send-waits", options.send_waits,
                   "compute-comms: end each row with a WAIT_SEND for every send, as PyTorch 2.15 "
                   "wants and earlier ones refuse");
  command.add_option("--out", options.out, "Write to this file instead of standard output");
  add_json_flag(command, options.request.json);
}

}  // namespace

void add_schedule_export(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command =
      group.add_subcommand("export", "Write a schedule as PyTorch's pipelining CSV");
  command->footer(
      "Examples:\n"
      "  headrace schedule export 1f1b --ranks 4 --microbatches 8 > 1f1b.csv\n"
      "  headrace schedule export zbv --ranks 4 --microbatches 10 --form compute-comms");
  auto options = std::make_shared<ExchangeOptions>();
  add_source_options(*command, options->request, "NAME");
  add_time_options(*command, options->request);
  add_file_options(*command, *options);
  command->callback([options, &chosen] { chosen.run = [options] { return exchange(*options); }; });
}

void add_schedule_import(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command =
      group.add_subcommand("import", "Read and check a CSV of either letter era, write it clean");
  command->footer(
      "Idle cells and sharding actions are left out, old letters become the current ones; notes\n"
      "say so on standard error.\n"
      "Examples:\n"
      "  headrace schedule import theirs.csv --out mine.csv\n"
      "  headrace schedule import theirs.csv --json");
  auto options = std::make_shared<ExchangeOptions>();
  command->add_option("FILE", options->request.source, "The CSV file")->required();
  options->request.spec.ranks = 0;
  options->request.spec.microbatches = 0;
  options->request.must_be_file = true;
  add_file_options(*command, *options);
  command->callback([options, &chosen] { chosen.run = [options] { return exchange(*options); }; });
}

}  // namespace headrace::cli
