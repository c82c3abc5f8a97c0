// SchedulerActor under the test scheduler: a whole run in one thread, and how it ends when children
// fail.
#include "runtime/data/corpus.hpp"
#include "tests/actors/actor_bench.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

using testing::ActorBench;
using testing::contains;
using testing::fake_scheduler;
using testing::Mail;
using testing::TinyData;

data::BatchLoader loader_of(const config::Config& config, const std::string& path) {
  data::CorpusOptions options;
  options.path = path;
  options.vocabulary_size = config.model.vocabulary.size;
  options.context = config.model.context;
  data::BatchOptions batches;
  batches.batch_size = config.batch.size;
  batches.microbatch_size = config.batch.microbatch_size;
  batches.order_seed = config.data.order_seed;
  return data::BatchLoader::create(data::open_corpus(options).value(), batches).value();
}

// All actors of a run, none of them detached.
class Run {
 public:
  Run(const config::Config& config, const std::string& path,
      const std::atomic<int>* signal = nullptr)
      : pipeline_(Pipeline::create(testing::plan_of(config)).value()),
        loader_(loader_of(pipeline_->plan().config, path)),
        main_(std::make_unique<caf::scoped_actor>(bench_.system())) {
    Children children;
    children.detached = false;
    children.data = {&loader_, pipeline_.get()};
    for (std::int32_t r = 0; r < config.pipeline.ranks; ++r) {
      workers_.push_back(RankWorker::create(*pipeline_, Rank(r)).value());
      children.stages.push_back({workers_.back().get(), &pipeline_->doorbell()});
    }
    SchedulerArguments arguments;
    arguments.pipeline = pipeline_.get();
    arguments.signal = signal;
    arguments.result = &result_;
    arguments.main = caf::actor_cast<caf::actor>(*main_);
    arguments.last_step = config.run.steps;
    scheduler_ = bench_.system().spawn(scheduler_behavior, arguments, children);
    bench_.run();
    const SchedulerState& state = testing::state_of<SchedulerState>(scheduler_);
    CHECK(state.phase == RunPhase::kIdle);
    stages_ = state.stages;
    data_ = state.data;
  }
  // Actors that a failed check left behind would keep the system from ending.
  ~Run() {
    release_data();
    for (const StageHandle& stage : stages_) caf::anon_send_exit(stage, caf::exit_reason::kill);
    caf::anon_send_exit(data_, caf::exit_reason::kill);
    caf::anon_send_exit(scheduler_, caf::exit_reason::kill);
    bench_.run();
    stages_.clear();
    data_ = nullptr;
    scheduler_ = nullptr;
    main_.reset();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void start() { caf::anon_send(scheduler_, StartRun{1}); }
  ActorBench& bench() { return bench_; }
  RunResult& result() { return result_; }
  const SchedulerHandle& scheduler() const { return scheduler_; }
  const StageHandle& stage(std::size_t rank) const { return stages_[rank]; }
  const DataHandle& data_actor() const { return data_; }
  const SchedulerState& state() const { return testing::state_of<SchedulerState>(scheduler_); }
  // Runs everything but the data actor: it is given no turn until it is released.
  void run_without_data() {
    auto& jobs = bench_.jobs().jobs;
    auto* const data = dynamic_cast<caf::resumable*>(caf::actor_cast<caf::abstract_actor*>(data_));
    do {
      const auto at = std::find(jobs.begin(), jobs.end(), data);
      if (at == jobs.end()) continue;
      jobs.erase(at);
      held_ = data;
    } while (bench_.jobs().try_run_once());
  }
  void release_data() {
    if (held_ != nullptr) bench_.jobs().jobs.push_back(std::exchange(held_, nullptr));
  }
  // Lets the scheduler look at the boards once.
  void look_without_data() {
    bench_.jobs().advance_time(std::chrono::seconds(1));
    run_without_data();
  }
  bool stop_raised() { return pipeline_->stop().load(); }

  // Whether RunEnded came: exactly once, and nothing else.
  int ended() {
    int count = 0;
    bool more = true;
    while (more) {
      (*main_)->receive(
          [&](const RunEnded& message) {
            ++count;
            CHECK(message.stuck == 0);
          },
          caf::after(std::chrono::seconds(0)) >> [&] { more = false; });
    }
    return count;
  }

 private:
  ActorBench bench_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
  data::BatchLoader loader_;
  RunResult result_;
  std::unique_ptr<caf::scoped_actor> main_;
  SchedulerHandle scheduler_;
  std::vector<StageHandle> stages_;
  DataHandle data_;
  caf::resumable* held_ = nullptr;  // the data actor, taken out of the queue of jobs
};

config::Config config_of(std::int32_t ranks) {
  config::Config config = testing::tiny_config();
  config.pipeline.ranks = ranks;
  return config;
}

void check_clean_end(Run& run) {
  run.bench().run();
  CHECK(run.ended() == 1);
  CHECK(run.bench().no_mail_left());
  CHECK_FALSE(run.result().stuck);
}

TEST_CASE("scheduler: a whole run in one thread ends with the state of a run with threads") {
  const TinyData data;
  for (const std::int32_t ranks : {1, 3}) {
    CAPTURE(ranks);
    Run run(config_of(ranks), data.path());
    run.start();
    check_clean_end(run);
    CHECK_EQ(testing::difference(data.run(config_of(ranks)), run.result()), "");
    CHECK_FALSE(run.stop_raised());
  }
}

TEST_CASE("scheduler: a batch that is refused at the first step ends the run with its text") {
  std::vector<std::uint16_t> tokens = testing::tiny_tokens(129);
  tokens[77] = 64;
  const TinyData data(tokens);
  Run run(config_of(2), data.path());
  run.start();
  check_clean_end(run);
  CHECK(run.result().status.code() == StatusCode::kData);
  CHECK(contains(run.result().status.message(), "step 1: "));
  CHECK(contains(run.result().status.message(), "77"));
  CHECK(run.result().steps.empty());
}

TEST_CASE("scheduler: refusals and failures that come late do not replace the first one") {
  const TinyData data;
  Run run(config_of(2), data.path());
  run.start();
  run.bench().run(3);
  caf::anon_send(
      run.scheduler(),
      StageFailed{1, 1, "1F0", static_cast<std::int32_t>(StatusCode::kDeviceFailed), "the first"});
  caf::anon_send(
      run.scheduler(),
      StageFailed{0, 1, "0F0", static_cast<std::int32_t>(StatusCode::kStageFailed), "the second"});
  caf::anon_send(run.scheduler(),
                 BatchRefused{2, static_cast<std::int32_t>(StatusCode::kData), "the third"});
  check_clean_end(run);
  CHECK(run.result().status.code() == StatusCode::kDeviceFailed);
  CHECK(run.result().status.message() == "rank 1, step 1, action 1F0: the first");
  CHECK(run.stop_raised());
}

TEST_CASE("scheduler: a killed stage ends the run and is named") {
  const TinyData data;
  for (const std::size_t rank : {std::size_t{0}, std::size_t{1}}) {
    // Before the start, within the first step and later.
    for (const std::size_t messages : {std::size_t{0}, std::size_t{4}, std::size_t{60}}) {
      CAPTURE(rank);
      CAPTURE(messages);
      config::Config config = config_of(2);
      config.run.steps = 50;
      Run run(config, data.path());
      run.start();
      run.bench().run(messages);
      REQUIRE(run.ended() == 0);
      caf::anon_send_exit(run.stage(rank), caf::exit_reason::kill);
      check_clean_end(run);
      CHECK_FALSE(run.result().status.is_ok());
      CHECK(contains(run.result().status.message(), "rank " + std::to_string(rank)));
      CHECK(run.stop_raised());
    }
  }
}

TEST_CASE("scheduler: a stage that ends in silence ends the run too") {
  const TinyData data;
  config::Config config = config_of(2);
  config.run.steps = 50;
  Run run(config, data.path());
  run.start();
  run.bench().run(20);
  caf::anon_send(run.stage(1), Drain{0});  // nobody told the scheduler
  check_clean_end(run);
  CHECK_FALSE(run.result().status.is_ok());
  CHECK(contains(run.result().status.message(), "rank 1"));
}

TEST_CASE("scheduler: a killed data actor ends the run and is named") {
  const TinyData data;
  config::Config config = config_of(2);
  config.run.steps = 50;
  Run run(config, data.path());
  run.start();
  run.bench().run(2);
  caf::anon_send_exit(run.data_actor(), caf::exit_reason::kill);
  check_clean_end(run);
  CHECK_FALSE(run.result().status.is_ok());
  CHECK(contains(run.result().status.message(), "data actor"));
}

// The virtual clock is the scheduler's; how late a batch is it reads from the real one.
void look_until_it_fails(Run& run) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (run.state().phase == RunPhase::kRunning) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run.look_without_data();
  }
  CHECK(run.state().phase == RunPhase::kDraining);
  run.release_data();
  check_clean_end(run);
}

// Runs until the first step is open; its successor's batch is asked for and does not come.
void hold_second_batch(Run& run) {
  run.start();
  while (!run.state().opened) REQUIRE(run.bench().run(1) == 1);
  run.run_without_data();
  REQUIRE(run.state().undecided);
  REQUIRE(run.result().steps.empty());
}

const std::string kNoBatch =
    "step 1: no progress for run.action_timeout_seconds: the data actor has been loading the batch "
    "of step ";

TEST_CASE("scheduler: a batch that does not come ends the run and is named") {
  const TinyData data;
  config::Config config = config_of(2);
  config.run.action_timeout_seconds = 0.02;
  Run first(config, data.path());
  first.start();
  first.run_without_data();
  look_until_it_fails(first);
  CHECK(first.result().status.code() == StatusCode::kTimeout);
  CHECK(first.result().status.message() == kNoBatch + "1");
  Run second(config, data.path());
  hold_second_batch(second);
  look_until_it_fails(second);
  CHECK(second.result().status.code() == StatusCode::kTimeout);
  CHECK(second.result().status.message() == kNoBatch + "2");
}

TEST_CASE("scheduler: a signal while the first batch loads ends the run before any step") {
  const TinyData data;
  std::atomic<int> signal{0};
  Run run(config_of(2), data.path(), &signal);
  run.start();
  run.run_without_data();
  signal.store(SIGTERM);
  CHECK(run.state().phase == RunPhase::kRunning);
  run.look_without_data();
  CHECK(run.state().phase == RunPhase::kDraining);
  run.release_data();
  check_clean_end(run);
  CHECK(run.result().status.is_ok());
  CHECK(run.result().signal == SIGTERM);
  CHECK(run.result().steps.empty());
  Plan untouched = testing::plan_of(config_of(2));
  untouched.config.run.steps = 0;
  CHECK(run.result().state_hash == data.run(untouched).state_hash);
}

TEST_CASE("scheduler: a signal while a later batch loads commits the step that is done") {
  const TinyData data;
  std::atomic<int> signal{0};
  Run run(config_of(2), data.path(), &signal);
  hold_second_batch(run);
  signal.store(SIGINT);
  run.look_without_data();
  CHECK(run.state().phase == RunPhase::kDraining);
  run.release_data();
  check_clean_end(run);
  CHECK(run.result().signal == SIGINT);
  config::Config one_step = config_of(2);
  one_step.run.steps = 1;
  CHECK_EQ(testing::difference(data.run(one_step), run.result()), "");
}

TEST_CASE("scheduler: looking at the boards leaves a healthy run alone") {
  const TinyData data;
  Run run(config_of(2), data.path());
  run.start();
  int looks = 0;
  while (run.ended() == 0) {
    run.bench().run(5);
    REQUIRE(++looks < 1000);
    run.bench().jobs().advance_time(std::chrono::seconds(1));
  }
  run.bench().run();
  CHECK(run.result().status.is_ok());
  CHECK(run.result().steps.size() == 3);
}

TEST_CASE("data actor: LoadBatch gives BatchLoaded with the counts and Drain the end") {
  const TinyData data;
  ActorBench bench;
  Mail mail;
  const auto pipeline = Pipeline::create(testing::plan_of(config_of(1))).value();
  data::BatchLoader loader = loader_of(pipeline->plan().config, data.path());
  const SchedulerHandle scheduler = bench.system().spawn(fake_scheduler, &mail);
  const DataHandle actor =
      bench.system().spawn(data_behavior, scheduler, DataArguments{&loader, pipeline.get()});
  caf::anon_send(actor, LoadBatch{1});
  caf::anon_send(actor, LoadBatch{40});
  bench.run();
  CHECK(mail.kinds == std::vector<std::string>{"BatchLoaded", "BatchLoaded"});
  REQUIRE(mail.batches.size() == 2);
  CHECK(mail.batches[0].step == 1);
  CHECK(mail.batches[0].supervised_tokens == 8 * 16);
  CHECK(mail.batches[0].epoch == 0);
  CHECK(mail.batches[1].epoch == 1);  // 250 samples are 31.25 batches
  CHECK(mail.senders[0] == actor.address());
  caf::anon_send(actor, Drain{0});
  bench.run();
  CHECK(bench.no_mail_left());
}

}  // namespace
}  // namespace headrace::actors
