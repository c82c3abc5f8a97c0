#include "tools/cli/schedule_commands.hpp"
#include "tools/cli/schedule_facts.hpp"
#include "tools/cli/schedule_request.hpp"

#include <iostream>
#include <memory>

namespace headrace::cli {
namespace {

struct CheckOptions {
  std::string path;
  std::string form = "auto";
  bool transports = true;
  bool json = false;
};

struct Checked {
  std::optional<schedules::Program> program;
  std::vector<FindingText> findings;
  std::vector<std::string> notes;
  std::vector<std::int32_t> peak_activations;  // [rank], of a valid one
};

schedules::CsvForm chosen_form(const std::string& word, const std::string& text) {
  if (word == "auto") return form_of(text);
  return word == "compute-only" ? schedules::CsvForm::kComputeOnly
                                : schedules::CsvForm::kComputeComms;
}

// The cell of the file an action of the program was read from.
std::int32_t file_cell(const schedules::CsvReading& reading, const FindingText& finding) {
  if (finding.rank < 0 || finding.cell < 0) return finding.cell;
  const auto rank = static_cast<std::size_t>(finding.rank);
  const auto cell = static_cast<std::size_t>(finding.cell);
  if (rank >= reading.cells.size() || cell >= reading.cells[rank].size()) return finding.cell;
  return reading.cells[rank][cell];
}

Result<Checked> examine(const CheckOptions& options) {
  const Result<std::string> text = read_text(options.path);
  if (!text) return text.status();
  schedules::CsvOptions csv;
  csv.source = options.path;
  csv.form = chosen_form(options.form, *text);
  const schedules::CsvReading reading = schedules::read_csv(*text, csv);
  Checked checked{reading.program, {}, reading.notes, {}};
  for (const schedules::CsvFault& fault : reading.faults)
    checked.findings.push_back({fault.rank, fault.cell, fault.text});
  if (!checked.program) return checked;
  checked.findings = findings_of(*checked.program);
  bool is_shifted = false;
  for (FindingText& finding : checked.findings) {
    const std::int32_t cell = file_cell(reading, finding);
    is_shifted = is_shifted || cell != finding.cell;
    finding.cell = cell;
  }
  if (is_shifted)
    checked.notes.emplace_back(
        "columns in the texts count actions, cells those of the file: idle cells count, a pair is "
        "one");
  if (!checked.findings.empty()) return checked;
  const Result<schedules::ProgramFacts> facts = schedules::validate(*checked.program);
  if (facts.is_ok())
    checked.peak_activations = facts->peak_activations;
  else
    checked.findings.push_back({-1, -1, facts.status().message()});
  return checked;
}

std::string place_of(const FindingText& finding) {
  if (finding.rank < 0) return "";
  const std::string row = "rank " + std::to_string(finding.rank);
  return row + (finding.cell < 0 ? "" : ", cell " + std::to_string(finding.cell)) + ": ";
}

void print_json(const CheckOptions& options, const Checked& checked) {
  Json result{{"valid", checked.findings.empty()}, {"file", options.path}};
  if (checked.findings.empty()) {
    result.update(sizes_json(*checked.program));
    result["peak_activations"] = checked.peak_activations;
    add_transports(result, *checked.program, options.transports);
  }
  result["findings"] = Json::array();
  for (const FindingText& finding : checked.findings)
    result["findings"].push_back(
        {{"rank", finding.rank}, {"cell", finding.cell}, {"text", finding.text}});
  result["notes"] = checked.notes;
  std::cout << result.dump(2) << "\n";
}

// The rows around the bad cells, as validate() shows them below its first line.
std::string marked_rows(const schedules::Program& program) {
  const std::string message = schedules::validate(program).status().message();
  const std::size_t first = message.find('\n');
  return first == std::string::npos ? "" : message.substr(first);
}

Status refusal(const CheckOptions& options, const Checked& checked) {
  std::string text = options.path + ": " + std::to_string(checked.findings.size()) +
                     (checked.findings.size() == 1 ? " finding" : " findings") +
                     "; rank and cell count from 0";
  for (const FindingText& finding : checked.findings)
    text += "\n  " + place_of(finding) + finding.text;
  for (const std::string& note : checked.notes) text += "\n  " + note;
  if (checked.program) text += marked_rows(*checked.program);
  return {StatusCode::kConfig, text};
}

Status check(const CheckOptions& options) {
  const Result<Checked> checked = examine(options);
  if (!checked) return checked.status();
  const bool is_valid = checked->findings.empty();
  if (options.json) {
    print_json(options, *checked);
    return is_valid ? Status::ok() : Status(StatusCode::kConfig, "");
  }
  if (!is_valid) return refusal(options, *checked);
  std::cout << options.path << ": valid\n" << sizes_text(*checked->program) << "\n";
  for (const std::string& note : checked->notes) std::cout << note << "\n";
  std::cout << "peak activations per rank:";
  for (const std::int32_t peak : checked->peak_activations) std::cout << " " << peak;
  std::cout << "\n";
  Json transports;
  add_transports(transports, *checked->program, options.transports);
  std::cout << transports_text(transports);
  return Status::ok();
}

}  // namespace

void add_schedule_check(CLI::App& group, ChosenCommand& chosen) {
  CLI::App* command = group.add_subcommand("check",
                                           "Check a schedule file: actions, order, "
                                           "dependencies, deadlock");
  command->footer(
      "Exits 2 with the findings, each with rank (row) and cell, both from 0.\n"
      "Examples:\n"
      "  headrace schedule check mine.csv\n"
      "  headrace schedule check mine.csv --json");
  auto options = std::make_shared<CheckOptions>();
  command->add_option("FILE", options->path, "The CSV file")->required();
  command
      ->add_option("--form", options->form,
                   "compute-only, compute-comms, or auto: by what the file holds (default)")
      ->check(CLI::IsMember({"auto", "compute-only", "compute-comms"}));
  add_transports_flag(*command, options->transports);
  add_json_flag(*command, options->json);
  command->callback([options, &chosen] { chosen.run = [options] { return check(*options); }; });
}

}  // namespace headrace::cli
