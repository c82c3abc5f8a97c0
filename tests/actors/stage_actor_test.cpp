// StageActor under the test scheduler: what it sends, to whom, after which message.
#include "tests/actors/actor_bench.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

using testing::ActorBench;
using testing::fake_scheduler;
using testing::Mail;
using Kinds = std::vector<std::string>;

// Stage actors of a plan and a scheduler that only listens; the test commands.
class Stages {
 public:
  explicit Stages(const config::Config& config)
      : pipeline_(Pipeline::create(testing::plan_of(config)).value()) {
    scheduler_ = bench_.system().spawn(fake_scheduler, &mail_);
    for (std::int32_t r = 0; r < config.pipeline.ranks; ++r) {
      workers_.push_back(RankWorker::create(*pipeline_, Rank(r)).value());
      stages_.push_back(bench_.system().spawn(stage_behavior, scheduler_,
                                              StageArguments{workers_.back().get(), &doorbell()}));
    }
    doorbell().set_hook([this](Rank rank) {
      ++wakes_;
      caf::anon_send(stages_[rank.index()], Wake{rank.value});
    });
    const std::int64_t tokens = pipeline_->tokens_per_step();
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (const std::int64_t step : {1, 2}) {
        pipeline_->inputs(StepIndex(step))[i] = static_cast<std::int32_t>(i * 7 % 60);
        pipeline_->targets(StepIndex(step))[i] = static_cast<std::int32_t>((i * 7 + 7) % 60);
      }
    }
    bench_.run();
  }

  ActorBench& bench() { return bench_; }
  Mail& mail() { return mail_; }
  Doorbell& doorbell() { return pipeline_->doorbell(); }
  RankWorker& worker(std::size_t rank) { return *workers_[rank]; }
  const StageHandle& stage(std::size_t rank) const { return stages_[rank]; }
  int wakes() const { return wakes_; }

  template <typename Message>
  void tell(std::size_t rank, const Message& message) {
    caf::anon_send(stages_[rank], message);
    bench_.run();
  }
  RunStep run_step(std::int64_t step, std::int32_t replay = 0) const {
    return {step, pipeline_->tokens_per_step(), 0, replay};
  }
  // Ends all actors and expects them gone, without a word.
  void drain() {
    caf::scoped_actor observer(bench_.system());
    const std::size_t before = mail_.kinds.size();
    for (const StageHandle& stage : stages_) observer->monitor(stage);
    for (const StageHandle& stage : stages_) caf::anon_send(stage, Drain{0});
    bench_.run();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      bool ended = false;
      observer->receive(
          [&](const caf::down_msg& down) {
            ended = !down.reason || down.reason == caf::exit_reason::normal;
          },
          caf::after(std::chrono::seconds(0)) >> [] {});
      CHECK(ended);
    }
    CHECK(mail_.kinds.size() == before);
    CHECK(bench_.no_mail_left());
  }

 private:
  ActorBench bench_;
  Mail mail_;
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
  std::vector<StageHandle> stages_;
  SchedulerHandle scheduler_;
  int wakes_ = 0;
};

config::Config config_of(std::int32_t ranks) {
  config::Config config = testing::tiny_config();
  config.pipeline.ranks = ranks;
  return config;
}

TEST_CASE(
    "stage actor: RunStep gives NormReady and CommitStep gives StepApplied and Drain the end") {
  Stages stages(config_of(1));
  CHECK(stages.mail().kinds.empty());
  stages.tell(0, stages.run_step(1));
  CHECK(stages.mail().kinds == Kinds{"NormReady"});
  CHECK(stages.mail().senders.back() == stages.stage(0).address());
  REQUIRE(stages.mail().norms.size() == 1);
  CHECK(stages.mail().norms[0].rank == 0);
  CHECK(stages.mail().norms[0].step == 1);
  CHECK(stages.mail().norms[0].loss_sums.size() == 8);
  CommitStep commit;
  commit.step = 1;
  commit.learning_rate = 0.01F;
  stages.tell(0, commit);
  CHECK(stages.mail().kinds == Kinds{"NormReady", "StepApplied"});
  REQUIRE(stages.mail().applied.size() == 1);
  CHECK(stages.mail().applied[0].step == 1);
  stages.tell(0, GetState{1});
  CHECK(stages.mail().kinds.back() == "StateReported");
  REQUIRE(stages.mail().states.size() == 1);
  CHECK(stages.mail().states[0].lines.size() == stages.mail().states[0].orders.size());
  CHECK(stages.mail().states[0].lines.size() > 3 * 8);
  stages.drain();
}

TEST_CASE("stage actor: a commit that opens the next step runs it without another message") {
  Stages stages(config_of(1));
  stages.tell(0, stages.run_step(1));
  CommitStep commit;
  commit.step = 1;
  commit.learning_rate = 0.01F;
  commit.open_next = 1;
  commit.next = stages.run_step(2);
  stages.tell(0, commit);
  CHECK(stages.mail().kinds == Kinds{"NormReady", "StepApplied", "NormReady"});
  CHECK(stages.mail().norms.back().step == 2);
  stages.drain();
}

TEST_CASE("stage actor: two ranks wake each other until both have reported") {
  Stages stages(config_of(2));
  stages.tell(1, stages.run_step(1));
  CHECK(stages.mail().kinds.empty());  // it waits for the activation
  CHECK(stages.wakes() == 0);
  CHECK(stages.bench().no_mail_left());
  stages.tell(0, stages.run_step(1));
  CHECK(stages.wakes() > 0);
  CHECK(stages.mail().kinds == Kinds{"NormReady", "NormReady"});
  CHECK(stages.mail().senders[0] != stages.mail().senders[1]);
  // Without a peer's ring nothing happens any more.
  stages.tell(0, Wake{0});
  stages.tell(1, Wake{1});
  CHECK(stages.mail().kinds.size() == 2);
  stages.drain();
}

TEST_CASE("stage actor: one that is parked for 100 ms reports its position once") {
  Stages stages(config_of(2));
  stages.tell(1, stages.run_step(1));
  stages.mail().progress.clear();
  CHECK(stages.bench().jobs().advance_time(std::chrono::milliseconds(99)) == 0);
  CHECK(stages.bench().run() == 0);
  CHECK(stages.bench().jobs().advance_time(std::chrono::milliseconds(2)) == 1);
  stages.bench().run();
  REQUIRE(stages.mail().progress.size() == 1);
  CHECK(stages.mail().progress[0].rank == 1);
  CHECK(stages.mail().progress[0].step == 1);
  CHECK(stages.mail().progress[0].position == 0);
  stages.bench().jobs().advance_time(std::chrono::seconds(3600));
  stages.bench().run();
  CHECK(stages.mail().progress.size() == 1);
  stages.drain();
}

TEST_CASE("stage actor: a throwing stage sends StageFailed once and stays until it is drained") {
  config::Config config = config_of(1);
  config.debug.throw_at = config::FaultPoint{0, 1};
  Stages stages(config);
  stages.tell(0, stages.run_step(1));
  CHECK(stages.mail().kinds == Kinds{"StageFailed"});
  REQUIRE(stages.mail().failures.size() == 1);
  CHECK(stages.mail().failures[0].rank == 0);
  CHECK(stages.mail().failures[0].where == "0F0");
  CHECK(stages.mail().failures[0].text.find("debug.throw_at") != std::string::npos);
  stages.tell(0, Wake{0});
  CHECK(stages.mail().kinds.size() == 1);
  stages.drain();
}

TEST_CASE("stage actor: a replay answers with ReplayDone and no norm") {
  Stages stages(config_of(1));
  stages.tell(0, stages.run_step(1));
  stages.tell(0, stages.run_step(1, 1));
  CHECK(stages.mail().kinds == Kinds{"NormReady", "ReplayDone"});
  REQUIRE(stages.mail().replays.size() == 1);
  CHECK(stages.mail().replays[0].found == 0);  // nothing is broken
  CHECK(stages.mail().replays[0].step == 1);
  stages.drain();
}

}  // namespace
}  // namespace headrace::actors
