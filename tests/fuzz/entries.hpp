// What the fuzzers and the corpus test do with one input.
//
// What it is for: libFuzzer targets and an ordinary test run the same checks. A broken promise is a
// HEADRACE_CHECK. What it does not do: make inputs. Thread rule: free functions, safe on any
// thread.
#pragma once

#include <string_view>

namespace headrace::fuzz {

// Reads `text` as a schedule in both CSV forms. Refusals have a place; what is accepted is written
// back to the same text, and the validator judges it.
// Returns whether one of the forms was accepted.
bool try_csv(std::string_view text);

// Reads `text` as a pipeline layout. What is accepted has no empty stage and one embedding, norm
// and head, and reads back the same when it is written out letter by letter. Returns whether it was
// accepted.
bool try_layout(std::string_view text);

}  // namespace headrace::fuzz
