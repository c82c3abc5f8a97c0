// What the ranks of one process share: boundaries, board, doorbell, batch buffers, devices, stop
// flag.
//
// What it is for: built once from the plan, before any actor; afterwards every part has one writer
// or is a set of atomic words. What it does not do: run anything. Thread rule: constant after
// construction but for the parts that state their own rule.
#pragma once

#include "kernels/device.hpp"
#include "runtime/actors/board.hpp"
#include "runtime/actors/doorbell.hpp"
#include "runtime/actors/plan.hpp"
#include "runtime/comm/boundary.hpp"
#include "runtime/comm/link.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace headrace::actors {

class Pipeline {
 public:
  // DeviceError and friends leave as kDeviceFailed. With `links` every boundary between two ranks
  // has two ends and a link between them; without, both ranks use one.
  [[nodiscard]] static Result<std::unique_ptr<Pipeline>> create(
      Plan plan, const comm::LinkFactory& links = {});

  [[nodiscard]] const Plan& plan() const { return plan_; }
  [[nodiscard]] kernels::Device& device(Rank rank) { return *devices_[rank.index()]; }
  // Between stage and stage+1 of a replica: the producer's end, and where the consumer looks.
  [[nodiscard]] comm::Boundary& activations(StageIndex stage, ReplicaIndex replica = {}) {
    return *activations_[index_of(stage, replica)];
  }
  [[nodiscard]] comm::Boundary& gradients(StageIndex stage, ReplicaIndex replica = {}) {
    return *gradients_[index_of(stage, replica)];
  }
  [[nodiscard]] comm::Boundary& consumed_activations(StageIndex stage, ReplicaIndex replica = {}) {
    const auto& far = far_activations_[index_of(stage, replica)];
    return far != nullptr ? *far : activations(stage, replica);
  }
  [[nodiscard]] comm::Boundary& consumed_gradients(StageIndex stage, ReplicaIndex replica = {}) {
    const auto& far = far_gradients_[index_of(stage, replica)];
    return far != nullptr ? *far : gradients(stage, replica);
  }
  // What a replica of a stage ships to the other; only if plan().replicas() is 2.
  [[nodiscard]] comm::Boundary& roots_from(StageIndex stage, ReplicaIndex replica) {
    return *roots_[index_of(stage, replica)];
  }
  // Tied exchange: from the embedding's end, from the head's end; only if plan().tied_exchange.
  [[nodiscard]] comm::Boundary& tied_from_embedding() { return *tied_[0]; }
  [[nodiscard]] comm::Boundary& tied_from_head() { return *tied_[1]; }
  [[nodiscard]] Board& board() { return board_; }
  [[nodiscard]] Doorbell& doorbell() { return doorbell_; }
  [[nodiscard]] std::atomic<bool>& stop() { return stop_; }

  // Tokens of a step, [batch_size, T], double-buffered by step parity: the data owner writes step+1
  // while step runs; a rank reads them only after RunStep.
  [[nodiscard]] std::int32_t* inputs(StepIndex step) const;
  [[nodiscard]] std::int32_t* targets(StepIndex step) const;
  [[nodiscard]] std::int64_t tokens_per_step() const { return tokens_per_step_; }

 private:
  explicit Pipeline(Plan plan);
  void make_devices();
  void make_boundaries();
  void make_links(const comm::LinkFactory& links);
  void make_roots();
  void make_tied();
  [[nodiscard]] std::size_t index_of(StageIndex stage, ReplicaIndex replica) const {
    return stage.index() * static_cast<std::size_t>(plan_.replicas()) + replica.index();
  }

  // Constant after construction.
  Plan plan_;
  std::int64_t tokens_per_step_;
  std::vector<std::unique_ptr<kernels::Device>> devices_;
  std::vector<std::unique_ptr<comm::Boundary>> activations_;  // [index_of]
  std::vector<std::unique_ptr<comm::Boundary>> gradients_;
  std::vector<std::unique_ptr<comm::Boundary>> far_activations_;  // null: one end for both
  std::vector<std::unique_ptr<comm::Boundary>> far_gradients_;
  std::vector<std::unique_ptr<comm::Boundary>> roots_;
  std::array<std::unique_ptr<comm::Boundary>, 2> tied_;
  std::array<kernels::Buffer, 2> inputs_;
  std::array<kernels::Buffer, 2> targets_;
  // Shared, by their own rules.
  Board board_;
  Doorbell doorbell_;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<comm::Link>> links_;  // last: their threads use the above
};

}  // namespace headrace::actors
