// What the simulator's models share: blocks and their durations, cells, links, idle causes.
//
// What it is for: simulator*.cpp. What it does not do: advance time.
// Thread rule: values; distinct objects are independent.
#pragma once

#include "schedules/simulator.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace headrace::schedules::detail {

constexpr double kNotYet = -1;  // times are never negative

// What a rank computes without a gap: one action, or a pair.
struct Block {
  const Action* first = nullptr;   // nullptr: the rank has computed
  const Action* second = nullptr;  // of a pair
  double duration = 0;
  double first_leaves = 0;  // its outputs, counted from its start
  double second_leaves = 0;
};

// A message: the output of one (stage, microbatch), activation or gradient.
struct Message {
  bool exists = false;
  bool is_forward = false;
  std::size_t cell = 0;
  std::int32_t boundary = 0;  // the one after this stage
  Rank from{0};
  Rank to{0};
};

class Workload {
 public:
  Workload(const Program& program, const SimulationOptions& options)
      : program_(program), options_(options) {}

  [[nodiscard]] std::size_t rank_count() const { return static_cast<std::size_t>(program_.ranks); }
  [[nodiscard]] std::size_t cell_count() const {
    return static_cast<std::size_t>(program_.stages) *
           static_cast<std::size_t>(program_.microbatches);
  }
  [[nodiscard]] std::size_t compute_count(Rank rank) const;

  // The rank's block at or after *cursor, which is set behind the block.
  [[nodiscard]] Block next_block(Rank rank, std::size_t* cursor) const;
  // What `action` needs from another stage.
  [[nodiscard]] Message input_of(const Action& action, Rank rank) const;
  // What another stage needs of `action`; its rank may be the same.
  [[nodiscard]] Message output_of(const Action& action, Rank rank) const;

  [[nodiscard]] const StageCost& cost(StageIndex stage) const {
    static constexpr StageCost kUnit{};
    if (options_.stages.empty()) return kUnit;
    return options_.stages.size() == 1 ? options_.stages.front() : options_.stages[stage.index()];
  }
  [[nodiscard]] double duration(const Action& action) const;

 private:
  [[nodiscard]] std::size_t at(std::int32_t stage, MicrobatchIndex m) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(program_.microbatches) +
           m.index();
  }

  const Program& program_;
  const SimulationOptions& options_;
};

// When each message left its producer; one slot per (stage, microbatch) and kind.
template <typename T>
class PerMessage {
 public:
  PerMessage(std::size_t cells, bool forward_only, T none)
      : forward_(cells, none), gradient_(forward_only ? 0 : cells, none) {}
  [[nodiscard]] T& operator[](const Message& message) {
    return (message.is_forward ? forward_ : gradient_)[message.cell];
  }

 private:
  std::vector<T> forward_;
  std::vector<T> gradient_;
};

struct Link {
  double latency = 0;
  double seconds_per_byte = 0;
  double free_at = 0;        // its last message has left by then
  std::uint32_t origin = 0;  // the block whose message began the run without a pause
};

// The directed links with costs of their own.
class Links {
 public:
  explicit Links(const SimulationOptions& options);
  [[nodiscard]] bool empty() const { return links_.empty(); }
  [[nodiscard]] Link* find(Rank from, Rank to);  // nullptr: `hop`
  // How long the link moves this message, without the latency.
  [[nodiscard]] double moving_time(const Link& link, const Message& message) const {
    if (bytes_->empty()) return 0;
    return link.seconds_per_byte * (*bytes_)[static_cast<std::size_t>(message.boundary)];
  }
  // Latency and moving time of one message by itself.
  [[nodiscard]] double transfer_time(const Message& message);

 private:
  using Ends = std::pair<Rank, Rank>;
  double hop_;
  const std::vector<double>* bytes_;
  std::vector<std::pair<Ends, Link>> links_;  // by ends
};

// Adds up why a rank is idle. `free`: the rank had nothing to do from then on.
struct Waiting {
  bool has_started = false;
  double last_end = 0;  // of its last block
  // A block starts; its input left its producer at `left`, and the rank was occupied by transfers
  // of its own from last_end to `free`.
  void start(double begin, double free, double left, IdleCauses* causes);
};

struct StepEndTimes {
  const std::vector<double>& need;  // [rank], empty = none
  const std::vector<double>& wall;  // the same, longer where cores are shared
  double computed = 0;              // when the last rank had computed
};

// makespan, idle and both bubbles, from timeline, busy and what the models have filled in.
void summarize(const StepEndTimes& step_end, Simulation* simulation);

// Adds the step's end of the rank that takes longest over it to the critical path.
void append_step_end(const std::vector<double>& step_end, double computed, Simulation* simulation);

// The models. simulate_shared knows kOverlap only.
[[nodiscard]] Simulation simulate_in_order(const Program& program,
                                           const SimulationOptions& options);
[[nodiscard]] Simulation simulate_rendezvous(const Program& program,
                                             const SimulationOptions& options);
[[nodiscard]] Simulation simulate_shared(const Program& program, const SimulationOptions& options);

}  // namespace headrace::schedules::detail
