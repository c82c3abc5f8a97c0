// The typed interfaces of the actors (CAF); included by this folder's .cpp files and actor tests
// only.
//
// What it is for: who accepts which message of messages.hpp. What it does not do: implement them.
// Thread rule: handles are values, safe to copy across threads.
#pragma once

#include "runtime/actors/messages.hpp"

#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace headrace::actors {

using StageHandle =
    caf::typed_actor<caf::reacts_to<RunStep>, caf::reacts_to<CommitStep>, caf::reacts_to<Wake>,
                     caf::reacts_to<GetState>, caf::reacts_to<ReportWait>, caf::reacts_to<Drain>>;

using DataHandle = caf::typed_actor<caf::reacts_to<LoadBatch>, caf::reacts_to<Drain>>;

using SchedulerHandle =
    caf::typed_actor<caf::reacts_to<StartRun>, caf::reacts_to<BatchLoaded>,
                     caf::reacts_to<BatchRefused>, caf::reacts_to<ProgressReported>,
                     caf::reacts_to<NormReady>, caf::reacts_to<StepApplied>,
                     caf::reacts_to<ReplayDone>, caf::reacts_to<StageFailed>,
                     caf::reacts_to<StateReported>, caf::reacts_to<CheckBoards>>;

}  // namespace headrace::actors
