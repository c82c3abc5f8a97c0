// Every schedule for the same model, ranks and microbatches, side by side.
//
// What it is for: the rows of `schedule compare`. What it does not do: parse options or print.
// Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/search.hpp"
#include "tools/cli/schedule_model_cost.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headrace::cli {

struct CompareRequest {
  std::int32_t ranks = 0;
  std::int32_t microbatches = 0;
  std::int32_t chunks = 2;  // where a schedule leaves the choice
  // Activations a rank may hold, in shares 1/P of one microbatch's; 0 = no limit. Bounds `auto`,
  // and marks the others.
  std::int32_t limit = 0;
  schedules::SearchGoal search;  // of `auto`: effort, measure and what I frees
  double hop = 0;
  bool gradient_after_input = false;
  ShareTimes share;
  std::vector<std::string> names;        // empty = all
  std::optional<config::Config> config;  // cuts and sizes the model; else equal stages
};

// [Note: fair times] A schedule with V chunks cuts the same model in P V stages, so a stage takes
// 1/V of the time of a rank's share; with two replicas a rank's stage is a whole share again, for
// half of the microbatches.
struct CompareRow {
  std::string name;
  std::int32_t chunks = 1;
  double makespan = 0;
  double bubble_global = 0;
  double bubble_span = 0;
  std::int32_t peak = 0;  // most stage activations on a rank
  double peak_share = 0;  // of what the whole model keeps of one microbatch
  double hops = 0;        // cross-rank transfers per microbatch
  std::int32_t replicas = 1;
  std::optional<std::int64_t> bytes_max;
  std::string bytes_reason;
  bool over_limit = false;
};

struct AbsentRow {
  std::string name;
  std::string reason;
};

struct Comparison {
  std::vector<CompareRow> rows;   // by makespan, then peak share, then name; auto once per V
  std::vector<AbsentRow> absent;  // in the order of the list
};

[[nodiscard]] Comparison compare_schedules(const CompareRequest& request);

}  // namespace headrace::cli
