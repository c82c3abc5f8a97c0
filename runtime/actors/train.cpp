// train(): spawns the actors of a run, waits for its end, and completes the result.
#include "runtime/actors/train.hpp"

#include "runtime/actors/detail/actors.hpp"
#include "runtime/actors/prediction.hpp"
#include "runtime/base/clock.hpp"
#include "runtime/base/log.hpp"
#include "runtime/data/corpus.hpp"

#include <caf/all.hpp>

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

namespace headrace::actors {
namespace {

constexpr std::int64_t kStreamLimitNs = 5'000'000'000;

Result<data::BatchLoader> open_loader(const config::Config& config) {
  const auto format = data::parse_token_format(config::to_string(config.data.format));
  if (!format) return format.status();
  data::CorpusOptions options;
  options.path = config.data.train;
  options.format = *format;
  options.vocabulary_size = config.model.vocabulary.size;
  options.context = config.model.context;
  if (config.data.ignore_token) options.ignore_token = *config.data.ignore_token;
  auto corpus = data::open_corpus(options);
  if (!corpus) return corpus.status();
  data::BatchOptions batches;
  batches.batch_size = config.batch.size;
  batches.microbatch_size = config.batch.microbatch_size;
  batches.order_seed = config.data.order_seed;
  return data::BatchLoader::create(*std::move(corpus), batches);
}

// Everything the actors use and must find alive until the last of them has ended.
struct Run {
  std::unique_ptr<Pipeline> pipeline;
  std::vector<std::unique_ptr<RankWorker>> workers;
  std::unique_ptr<data::BatchLoader> loader;
  RunResult result;
  caf::actor_system_config system_config;
  std::unique_ptr<caf::actor_system> system;
};

Status build(Run& run, const Plan& plan, const RunOptions& options) {
  auto loader = open_loader(plan.config);
  if (!loader) return loader.status();
  run.loader = std::make_unique<data::BatchLoader>(*std::move(loader));
  auto pipeline = Pipeline::create(plan, options.links);
  if (!pipeline) return pipeline.status();
  run.pipeline = *std::move(pipeline);
  for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
    auto worker = RankWorker::create(*run.pipeline, Rank(r));
    if (!worker) return worker.status();
    run.workers.push_back(*std::move(worker));
  }
  // Idle pool workers must not poll: the ranks need the cores.
  run.system_config.set("scheduler.policy", caf::atom("sharing"));
  run.system_config.set("scheduler.max-threads", 1);
  run.system_config.set("logger.verbosity", caf::atom("quiet"));
  run.system = std::make_unique<caf::actor_system>(run.system_config);
  return Status::ok();
}

void execute(Run& run, const Plan& plan, const RunOptions& options) {
  caf::scoped_actor main(*run.system);
  SchedulerArguments arguments;
  arguments.pipeline = run.pipeline.get();
  arguments.observer = options.observer;
  arguments.signal = options.signal;
  arguments.result = &run.result;
  arguments.main = caf::actor_cast<caf::actor>(main);
  arguments.last_step = plan.config.run.steps;
  Children children;
  children.detached = options.detached;
  children.data = {run.loader.get(), run.pipeline.get()};
  for (const auto& worker : run.workers) {
    children.stages.push_back({worker.get(), &run.pipeline->doorbell()});
  }
  const auto scheduler = run.system->spawn(scheduler_behavior, arguments, children);
  main->send(scheduler, StartRun{1});
  main->monitor(scheduler);
  main->receive([](const RunEnded&) {},
                [&run](const caf::down_msg& down) {
                  // It should have reported first; whatever it left behind must not be waited for.
                  run.result.status = Status(StatusCode::kInternal,
                                             "the scheduler actor died: " + to_string(down.reason));
                  run.result.stuck = true;
                });
}

// Actors that ended leave no thread, but a queued stream may still be inside a kernel that never
// returns.
bool streams_end(const Run& run) {
  const std::int64_t deadline_ns = monotonic_now_ns() + kStreamLimitNs;
  for (const auto& worker : run.workers) {
    while (!worker->stream().idle()) {
      if (monotonic_now_ns() > deadline_ns) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  return true;
}

void complete(Run& run, const Plan& plan, std::int64_t cpu_ns) {
  RunResult& result = run.result;
  result.numerics_id = run.pipeline->device(Rank(0)).numerics_id();
  result.peak_activations_bound = plan.peak_activations_bound;
  std::int64_t actions = 0;
  for (const auto& worker : run.workers) {
    result.times.push_back(worker->times());
    result.peak_activations.push_back(worker->peak_activations());
    actions += worker->times().actions;
  }
  if (actions > 0 && result.steps.size() > 1) {
    const double steps_counted = static_cast<double>(result.steps.size() - 1);
    const double per_step = static_cast<double>(actions) / steps_counted;
    result.cpu_us_per_action =
        static_cast<double>(cpu_ns) * 1e-3 / (per_step * static_cast<double>(result.steps.size()));
  }
  const Prediction prediction =
      predict(plan, result.times, static_cast<std::int32_t>(std::thread::hardware_concurrency()));
  result.bubble_predicted = prediction.bubble_global;
  result.step_seconds_predicted = prediction.step_seconds;
}

}  // namespace

RunResult train(const Plan& plan, const RunOptions& options) {
  auto run = std::make_unique<Run>();
  run->result.status = build(*run, plan, options);
  if (!run->result.status) return std::move(run->result);
  log(LogLevel::kInfo, "train", "run started",
      {{"schedule", plan.program.schedule},
       {"ranks", plan.program.ranks},
       {"stages", plan.program.stages},
       {"microbatches", plan.program.microbatches},
       {"seed", plan.config.run.seed},
       {"numerics_id", run->pipeline->device(Rank(0)).numerics_id()}});
  const std::int64_t wall_ns = monotonic_now_ns();
  const std::int64_t cpu_ns = process_cpu_now_ns();
  execute(*run, plan, options);
  run->result.wall_seconds = static_cast<double>(monotonic_now_ns() - wall_ns) * 1e-9;
  if (!run->result.stuck && !streams_end(*run)) run->result.stuck = true;
  if (run->result.stuck) {
    // A thread never came back. Waiting for it would hang the process that is to report it.
    RunResult result = run->result;
    static_cast<void>(run.release());
    return result;
  }
  run->system.reset();  // joins every actor's thread
  complete(*run, plan, process_cpu_now_ns() - cpu_ns);
  return std::move(run->result);
}

}  // namespace headrace::actors
