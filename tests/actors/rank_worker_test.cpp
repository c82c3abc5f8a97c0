// RankWorker without actors: two ranks driven by hand in one thread.
#include "runtime/actors/rank_worker.hpp"

#include "runtime/actors/step_ledger.hpp"
#include "tests/actors/tiny_run.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace headrace::actors {
namespace {

// P ranks with made-up batches; the test is the scheduler.
class Bench {
 public:
  explicit Bench(const Plan& plan) : pipeline_(Pipeline::create(plan).value()) {
    pipeline_->doorbell().set_hook([](Rank) {});
    for (std::int32_t r = 0; r < plan.program.ranks; ++r) {
      workers_.push_back(RankWorker::create(*pipeline_, Rank(r)).value());
    }
  }

  RankWorker& worker(std::int32_t rank) { return *workers_[Rank(rank).index()]; }
  std::int32_t ranks() const { return static_cast<std::int32_t>(workers_.size()); }
  Pipeline& pipeline() { return *pipeline_; }

  RunStep fill_batch(std::int64_t step) {
    const std::int64_t tokens = pipeline_->tokens_per_step();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto token = static_cast<std::int32_t>((i * 11 + step * 5) % 60);
      pipeline_->inputs(StepIndex(step))[i] = token;
      pipeline_->targets(StepIndex(step))[i] = (token + 11) % 60;
    }
    return RunStep{step, tokens, 0, 0};
  }

  void open(const RunStep& message) {
    for (auto& worker : workers_) worker->open(message);
  }

  // Advances in turn until nobody gets further.
  void advance_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (auto& worker : workers_) {
        if (!worker->can_advance()) continue;
        moved = true;
        waiting_[worker->rank().index()] = worker->advance();
      }
    }
  }
  WaitCause waiting(std::int32_t rank) const { return waiting_[Rank(rank).index()]; }

 private:
  std::unique_ptr<Pipeline> pipeline_;
  std::vector<std::unique_ptr<RankWorker>> workers_;
  std::array<WaitCause, 8> waiting_{};
};

Plan plan_of(std::int32_t ranks, const char* schedule = "1f1b") {
  config::Config config = testing::tiny_config();
  config.pipeline.ranks = ranks;
  config.schedule.name = schedule;
  config.batch.size = 4;
  return testing::plan_of(config);
}

CommitStep commit_of(std::int64_t step, const StepOutcome& outcome) {
  CommitStep commit;
  commit.step = step;
  commit.learning_rate = outcome.update.learning_rate;
  commit.bias_correction1 = outcome.update.bias_correction1;
  commit.bias_correction2 = outcome.update.bias_correction2;
  commit.gradient_scale = outcome.update.gradient_scale;
  return commit;
}

// Joins the norms of all ranks; every rank must have reported.
StepOutcome joined(Bench& bench, std::int64_t step, std::int64_t tokens) {
  StepLedger ledger(bench.pipeline().plan());
  ledger.open(StepIndex(step), tokens);
  for (std::int32_t r = 0; r < bench.ranks(); ++r) {
    const auto norm = bench.worker(r).take_norm();
    REQUIRE(norm.has_value());
    CHECK(norm->rank == r);
    CHECK(norm->step == step);
    CHECK(norm->loss_sums.size() == (r + 1 == bench.ranks() ? 4u : 0u));
    CHECK(ledger.add(*norm) == (r + 1 == bench.ranks()));
    CHECK_FALSE(bench.worker(r).take_norm().has_value());  // once
  }
  return ledger.outcome();
}

TEST_CASE("rank worker: two ranks in one thread run a step to its commit") {
  Bench bench(plan_of(2));
  CHECK_FALSE(bench.worker(0).can_advance());
  CHECK(bench.worker(0).advance() == WaitCause::kNone);
  const RunStep message = bench.fill_batch(1);
  bench.open(message);
  CHECK_FALSE(bench.worker(1).can_advance());
  CHECK(bench.worker(1).advance() == WaitCause::kActivation);
  CHECK(bench.pipeline().board().read(Rank(1)).waiting == WaitCause::kActivation);
  CHECK(to_string(bench.pipeline().board().read(Rank(1)).action) == "1F0");
  CHECK(bench.worker(0).advance() == WaitCause::kGradient);  // 0F0 0F1, then 0B0
  CHECK(bench.worker(0).position() == 2);
  CHECK(to_string(bench.pipeline().board().read(Rank(0)).action) == "0B0");
  CHECK(bench.worker(1).can_advance());
  bench.advance_all();
  for (std::int32_t r = 0; r < 2; ++r) {
    CHECK(bench.waiting(r) == WaitCause::kCommit);
    CHECK(bench.worker(r).peak_activations() == 2 - r);
    CHECK(bench.worker(r).stage(ChunkIndex(0)).frames_in_use() == 0);
    CHECK_FALSE(bench.worker(r).take_applied().has_value());
  }
  CHECK(bench.pipeline().activations(StageIndex(0)).slots_in_use() == 0);
  CHECK(bench.pipeline().gradients(StageIndex(0)).slots_in_use() == 0);
  const StepOutcome outcome = joined(bench, 1, message.supervised_tokens);
  CHECK(outcome.loss == doctest::Approx(std::log(64.0)).epsilon(0.05));  // an untrained model
  CHECK(outcome.grad_norm > 0);
  for (std::int32_t r = 0; r < 2; ++r) {
    const auto before = bench.worker(r).report_state();
    bench.worker(r).commit(commit_of(1, outcome));
    bench.worker(r).advance();
    const auto applied = bench.worker(r).take_applied();
    REQUIRE(applied.has_value());
    CHECK(applied->rank == r);
    CHECK(applied->step == 1);
    CHECK_FALSE(bench.worker(r).take_failure().has_value());
    CHECK(bench.worker(r).report_state().lines != before.lines);
    CHECK(bench.pipeline().board().read(Rank(r)).waiting == WaitCause::kData);
  }
}

TEST_CASE("rank worker: a commit opens the next step and losses fall over steps") {
  Bench bench(plan_of(2));
  RunStep message = bench.fill_batch(1);
  bench.open(message);
  std::vector<double> losses;
  for (std::int64_t step = 1; step <= 6; ++step) {
    bench.advance_all();
    const StepOutcome outcome = joined(bench, step, message.supervised_tokens);
    losses.push_back(outcome.loss);
    CommitStep commit = commit_of(step, outcome);
    commit.open_next = 1;
    commit.next = message = bench.fill_batch(step + 1);
    for (std::int32_t r = 0; r < 2; ++r) bench.worker(r).commit(commit);
    for (std::int32_t r = 0; r < 2; ++r) bench.worker(r).advance();
    for (std::int32_t r = 0; r < 2; ++r) {
      CHECK(bench.worker(r).take_applied()->step == step);
      CHECK(bench.worker(r).step() == StepIndex(step + 1));
    }
  }
  CHECK(losses.back() < losses.front() - 0.3);
}

TEST_CASE("rank worker: a commit that applies nothing leaves every weight alone") {
  Bench bench(plan_of(2));
  const RunStep message = bench.fill_batch(1);
  bench.open(message);
  bench.advance_all();
  CommitStep commit = commit_of(1, joined(bench, 1, message.supervised_tokens));
  commit.apply = 0;
  for (std::int32_t r = 0; r < 2; ++r) {
    const auto before = bench.worker(r).report_state();
    bench.worker(r).commit(commit);
    bench.worker(r).advance();
    CHECK(bench.worker(r).take_applied().has_value());
    CHECK(bench.worker(r).report_state().lines == before.lines);
  }
}

TEST_CASE("rank worker: a fault is reported once with its action and nothing is issued after it") {
  config::Config config = testing::tiny_config();
  config.pipeline.ranks = 2;
  config.debug.throw_at = config::FaultPoint{1, 1};
  Bench bench(testing::plan_of(config));
  bench.open(bench.fill_batch(1));
  bench.advance_all();
  const auto failure = bench.worker(1).take_failure();
  REQUIRE(failure.has_value());
  CHECK(failure->rank == 1);
  CHECK(failure->step == 1);
  CHECK(failure->where == "1F0");
  CHECK(static_cast<StatusCode>(failure->code) == StatusCode::kStageFailed);
  CHECK(failure->text.find("debug.throw_at") != std::string::npos);
  CHECK_FALSE(bench.worker(1).take_failure().has_value());
  CHECK_FALSE(bench.worker(1).can_advance());
  CHECK(bench.worker(1).advance() == WaitCause::kNone);
  CHECK(bench.worker(1).position() == 0);
  CHECK_FALSE(bench.worker(0).take_failure().has_value());
}

TEST_CASE(
    "rank worker: a replay of the open step names the tensor that broke and may be repeated") {
  Bench bench(plan_of(2));
  RunStep message = bench.fill_batch(1);
  for (stages::StateTensor& tensor : bench.worker(1).stage(ChunkIndex(0)).state()) {
    if (tensor.name.find("mlp") == std::string::npos) continue;
    CAPTURE(tensor.name);
    tensor.data[3] = std::numeric_limits<float>::infinity();
    break;
  }
  bench.open(message);
  bench.advance_all();
  CHECK_FALSE(joined(bench, 1, message.supervised_tokens).finite);
  message.replay = 1;
  bench.open(message);
  bench.advance_all();
  const auto clean = bench.worker(0).take_replay();
  const auto broken = bench.worker(1).take_replay();
  REQUIRE(clean.has_value());
  REQUIRE(broken.has_value());
  CHECK(broken->found == 1);
  CHECK(broken->stage == 1);
  CHECK(broken->tensor.find("weight block.") != std::string::npos);
  // Rank 0 saw the broken gradient come back, later in causal order than a forward.
  if (clean->found != 0) CHECK(clean->backward == 1);
  CHECK_FALSE(bench.worker(0).take_norm().has_value());
  CHECK(bench.pipeline().board().read(Rank(0)).waiting == WaitCause::kData);
  CHECK(bench.pipeline().activations(StageIndex(0)).slots_in_use() == 0);
  CHECK(bench.pipeline().gradients(StageIndex(0)).slots_in_use() == 0);
}

TEST_CASE("rank worker: a forward waits for a free slot and not for a frame of another stage") {
  Bench bench(plan_of(2, "gpipe"));
  bench.open(bench.fill_batch(1));
  const std::int32_t slots = bench.pipeline().activations(StageIndex(0)).slot_count();
  CHECK(bench.worker(0).advance() != WaitCause::kNone);
  const std::int64_t issued = bench.worker(0).position();
  CHECK(issued == std::min<std::int64_t>(slots, 4));
  CHECK(bench.pipeline().activations(StageIndex(0)).slots_in_use() == issued);
  bench.advance_all();
  CHECK(bench.waiting(0) == WaitCause::kCommit);
}

}  // namespace
}  // namespace headrace::actors
