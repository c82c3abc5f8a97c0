#include "runtime/actors/program_source.hpp"

#include "schedules/csv.hpp"
#include "schedules/passes.hpp"
#include "schedules/registry.hpp"
#include "schedules/validator.hpp"

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace headrace::actors {
namespace {

constexpr std::size_t kScheduleFileBytesMax = std::size_t{256} << 20;

Result<std::string> read_schedule_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Status(StatusCode::kConfig, "schedule.file: '" + path +
                                           "' cannot be read: no such file, "
                                           "or no permission");
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || !text || text.str().size() > kScheduleFileBytesMax) {
    return Status(StatusCode::kConfig, "schedule.file: '" + path +
                                           "' cannot be read: a folder, empty, or over " +
                                           std::to_string(kScheduleFileBytesMax >> 20) + " MiB");
  }
  return text.str();
}

// The layout and the batch are the config's; a file that has others was made for another run.
Status check_fits(const config::Config& config, const schedules::Program& program) {
  const auto refuse = [&](const std::string& what, std::int32_t found, const std::string& key,
                          std::int32_t wanted) {
    return Status(StatusCode::kConfig, "schedule.file: '" + *config.schedule.file + "' has " +
                                           std::to_string(found) + ' ' + what + ", but " + key +
                                           " is " + std::to_string(wanted) +
                                           "; change the key or make the schedule again");
  };
  if (program.ranks != config.pipeline.ranks) {
    return refuse("ranks (rows)", program.ranks, "pipeline.ranks", config.pipeline.ranks);
  }
  const bool both_ways = program.placement == schedules::Placement::kBidirectional;
  if (both_ways && program.ranks % 2 != 0) {
    // A rank tells its stages apart by their number.
    const std::string middle = std::to_string(program.ranks / 2);
    return Status(StatusCode::kConfig,
                  "schedule.file: '" + *config.schedule.file + "' runs both ways over " +
                      std::to_string(program.ranks) + " ranks, so that rank " + middle +
                      " would hold both replicas of stage " + middle +
                      "; a file with two replicas needs an even number of ranks");
  }
  const std::int32_t chunks = both_ways ? 1 : program.chunks;
  if (chunks != config.pipeline.chunks) {
    return refuse("stages per rank", chunks, "pipeline.chunks", config.pipeline.chunks);
  }
  if (program.microbatches != config.batch.microbatches()) {
    return refuse("microbatches", program.microbatches, "batch.size / batch.microbatch_size",
                  config.batch.microbatches());
  }
  return Status::ok();
}

Result<schedules::Program> from_file(const config::Config& config) {
  const auto text = read_schedule_file(*config.schedule.file);
  if (!text) return text.status();
  schedules::CsvOptions options;
  options.source = *config.schedule.file;
  if (text->find("SEND_") != std::string::npos || text->find("RECV_") != std::string::npos) {
    options.form = schedules::CsvForm::kComputeComms;
  }
  auto program = schedules::parse_csv(*text, options);
  if (!program)
    return Status(program.status().code(), "schedule.file: " + program.status().message());
  HEADRACE_RETURN_IF_ERROR(check_fits(config, *program));
  // As it stands in the file, so that a refusal names the file's own cells.
  const Status valid = schedules::validate(*program).status();
  if (!valid) return Status(valid.code(), "schedule.file: " + valid.message());
  return schedules::without_transfers(*std::move(program));
}

Result<schedules::Program> from_name(const config::Config& config,
                                     const std::vector<schedules::StageCost>& costs) {
  const config::ScheduleConfig& schedule = config.schedule;
  schedules::ScheduleSpec spec;
  spec.name = schedule.name;
  spec.ranks = config.pipeline.ranks;
  spec.chunks = config.pipeline.chunks;
  spec.microbatches = config.batch.microbatches();
  spec.descending_backward = schedule.backward == config::BackwardOrder::kDescending;
  spec.group = schedule.group;
  spec.search.stages = costs;
  if (schedule.times) {
    spec.search.stages = {{schedule.times->forward, schedule.times->input, schedule.times->weight}};
  }
  spec.search.activation_limit = schedule.activation_limit;
  auto program = schedules::make_program(spec);
  if (!program) {
    return Status(program.status().code(), "schedule.name: " + program.status().message());
  }
  return program;
}

}  // namespace

Result<schedules::Program> make_run_program(const config::Config& config,
                                            const std::vector<schedules::StageCost>& costs,
                                            BrokenRule broken_rule) {
  auto program = config.schedule.file ? from_file(config) : from_name(config, costs);
  if (!program) return program;
  if (program->forward_only) {
    return Status(StatusCode::kConfig,
                  std::string(config.schedule.file ? "schedule.file" : "schedule.name") + ": '" +
                      program->schedule +
                      "' runs no backward and trains nothing; pick a training schedule, see "
                      "`headrace schedule list`");
  }
  *program = schedules::without_pairs(*std::move(program));
  if (broken_rule == BrokenRule::kAddingOrder) return program;
  return schedules::with_ascending_weights(*std::move(program));
}

}  // namespace headrace::actors
