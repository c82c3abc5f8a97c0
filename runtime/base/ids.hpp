// Strong identifiers for everything a signature may name by number.
//
// What it is for: two ids of different kinds never convert into each other, so that a rank cannot
// be passed where a stage is wanted. What it does not do: arithmetic between kinds; use `.value`.
// Thread rule: values; distinct objects are independent.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace headrace {

template <typename Tag>
struct Id {
  std::int32_t value = 0;

  constexpr Id() = default;
  constexpr explicit Id(std::int32_t v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
  [[nodiscard]] constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
};

using Rank = Id<struct RankTag>;                   // position in the pipeline, 0..P-1
using StageIndex = Id<struct StageTag>;            // 0..S-1
using ChunkIndex = Id<struct ChunkTag>;            // 0..V-1, the stages of one rank
using MicrobatchIndex = Id<struct MicrobatchTag>;  // 0..M-1 within a step
using LayerIndex = Id<struct LayerTag>;            // global layer number in the model
using ReplicaIndex = Id<struct ReplicaTag>;        // 0..D-1
using ProcessIndex = Id<struct ProcessTag>;

// A step is one optimizer update; the first step of a run is 1.
struct StepIndex {
  std::int64_t value = 0;

  constexpr StepIndex() = default;
  constexpr explicit StepIndex(std::int64_t v) : value(v) {}
  constexpr auto operator<=>(const StepIndex&) const = default;
};

}  // namespace headrace

template <typename Tag>
struct std::hash<headrace::Id<Tag>> {
  std::size_t operator()(headrace::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>{}(id.value);
  }
};
