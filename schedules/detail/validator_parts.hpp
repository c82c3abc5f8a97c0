// The steps of validate(), in the order they run; each relies on those before it to have added no
// finding.
//
// What it is for: validator.cpp joins them. What they do not do: change the program.
// Thread rule: free functions, safe on any thread.
#pragma once

#include "schedules/detail/cell_index.hpp"
#include "schedules/validator.hpp"

namespace headrace::schedules::detail {

// P, V, S, M and the number of lists agree and are within limits.
void check_shape(const Program& program, Findings* findings);
// Stages, microbatches and ranks of every action fit, nothing stands twice; fills `index`.
void check_cells(const Program& program, CellIndex* index, Findings* findings);
// A pair is a forward, directly followed by the B or I of another microbatch.
void check_pairs(const Program& program, Findings* findings);
// Exactly once; F before B or I, I before W.
void check_compute(const Program& program, const CellIndex& index, Findings* findings);
// The step's end is whole on every rank and in its order, or absent everywhere.
void check_step_end(const Program& program, const CellIndex& index, Findings* findings);
// Each crossing has its send after the producer and its receive before the consumer, nothing else
// does.
void check_transfers(const Program& program, const CellIndex& index, Findings* findings);
// Peaks and activation slots.
[[nodiscard]] ProgramFacts measure_peaks(const Program& program);
// The program runs to its end with these activation slots, else the smallest cycle of waiting
// ranks; fills in the gradient slots that run needed.
void check_progress(const Program& program, const CellIndex& index, ProgramFacts* facts,
                    Findings* findings);
// Receives of a link stand in the order of its sends.
void check_links(const Program& program, const CellIndex& index, Findings* findings);

// Whether stages `stage` and `stage + 1` both exist and live on different ranks.
[[nodiscard]] inline bool crosses_ranks(const Program& program, StageIndex stage,
                                        MicrobatchIndex m) {
  if (stage.value < 0 || stage.value + 1 >= program.stages) return false;
  return program.rank_of(stage, m) != program.rank_of(StageIndex{stage.value + 1}, m);
}

}  // namespace headrace::schedules::detail
