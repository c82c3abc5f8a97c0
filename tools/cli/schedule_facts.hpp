// What the schedule commands say about a program beyond its times.
//
// What it is for: findings, transport verdicts and hops in one form for text and JSON. What it does
// not do: print. Thread rule: free functions, safe on any thread.
#pragma once

#include "tools/cli/schedule_request.hpp"

#include <string>
#include <vector>

namespace headrace::cli {

// Rank and cell from 0; -1 = the whole row or the whole program.
struct FindingText {
  std::int32_t rank = -1;
  std::int32_t cell = -1;
  std::string text;
};

// What is wrong with a program that was read or generated; empty if nothing is.
[[nodiscard]] std::vector<FindingText> findings_of(const schedules::Program& program);

// Adds `deadlock`: `runtime` and `lowering/model` -> `ok`, `deadlock` or `mismatch`;
// `reasons`: why, for each that is not ok: the smallest cycle of waiting ranks or the wrong
// message; `least_buffers`, the messages a directed link must hold for the naive lowering; and
// `links`: from, to, kind and whether matching by order suffices there. Without `transports` only
// `runtime` is judged.
// @pre validate(program) is ok.
void add_transports(Json& result, const schedules::Program& program, bool transports);

// What add_transports found, in lines: how many are ok, each that is not with its reason, buffers.
[[nodiscard]] std::string transports_text(const Json& result);

// Cross-rank transfers of one microbatch, activations and gradients, the mean over microbatches.
[[nodiscard]] double hops_per_microbatch(const schedules::Program& program);
// How often each parameter is held: 2 with bidirectional placement.
[[nodiscard]] std::int32_t replicas_of(const schedules::Program& program);

}  // namespace headrace::cli
