// A few orders as text, for tests of schedule files and of two replicas.
//
// What it is for: programs that hold from outside, whatever the generators make. What it does not
// do: check anything. Thread rule: constants.
#pragma once

#include <string>

namespace headrace::actors::testing {

// DualPipe for P = 2, M = 4: two replicas of two stages, pairs included.
inline const std::string kDualpipe =
    "0F0,1F2,0F1,1B2,(1F3;0B0)OVERLAP_F_B,1B3,0I1,0W1\n"
    "0F2,1F0,0F3,1B0,(1F1;0B2)OVERLAP_F_B,1B1,0I3,0W3\n";

// Chimera for P = 4, M = 4: two replicas of four stages.
inline const std::string kChimera =
    "0F0,0F1,3F2,3B2,3F3,3B3,0B0,0B1\n"
    "1F0,2F2,1F1,2F3,2B2,1B0,2B3,1B1\n"
    "1F2,2F0,1F3,2F1,2B0,1B2,2B1,1B3\n"
    "0F2,0F3,3F0,3B0,3F1,3B1,0B2,0B3\n";

// A V shape for P = 2, M = 2: rank 0 holds stages 0 and 3, rank 1 hands over to itself.
inline const std::string kVShape =
    "0F0,0F1,3F0,3I0,3F1,3I1,3W0,0B0,3W1,0B1\n"
    "1F0,2F0,1F1,2F1,2I0,1B0,2I1,2W0,2W1,1B1\n";

}  // namespace headrace::actors::testing
