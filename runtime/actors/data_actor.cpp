// DataActor: owns the batches. It loads and checks step n+1 while step n runs.
#include "runtime/actors/detail/actors.hpp"

#include <exception>
#include <span>

namespace headrace::actors {
namespace {

void load(DataHandle::stateful_pointer<DataState> self, std::int64_t number) {
  DataState& state = self->state;
  const StepIndex step(number);
  const auto tokens = static_cast<std::size_t>(state.pipeline->tokens_per_step());
  const data::Batch batch{std::span(state.pipeline->inputs(step), tokens),
                          std::span(state.pipeline->targets(step), tokens)};
  const auto info = state.loader->load(step, batch);
  if (!info) {
    self->send(state.scheduler,
               BatchRefused{number, static_cast<std::int32_t>(info.status().code()),
                            info.status().message()});
    return;
  }
  self->send(state.scheduler, BatchLoaded{number, info->supervised_tokens, info->epoch});
}

}  // namespace

DataHandle::behavior_type data_behavior(DataHandle::stateful_pointer<DataState> self,
                                        SchedulerHandle scheduler, DataArguments arguments) {
  self->state.loader = arguments.loader;
  self->state.pipeline = arguments.pipeline;
  self->state.scheduler = scheduler;
  return {
      [self](const LoadBatch& message) {
        try {
          load(self, message.step);
        } catch (const std::exception& failure) {
          self->send(self->state.scheduler,
                     BatchRefused{message.step, static_cast<std::int32_t>(StatusCode::kInternal),
                                  failure.what()});
        }
      },
      [self](const Drain&) { self->quit(); },
  };
}

}  // namespace headrace::actors
