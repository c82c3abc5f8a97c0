// The documents generated from the schema: reference for people, JSON Schema for editors.
//
// What it is for: what they say is what the loader does. What it does not do: rules over several
// keys, beyond one sentence each. Thread rule: free functions, safe on any thread.
#pragma once

#include <string>

namespace headrace::config {

// Markdown: a table per section with key, type, default, range and sentence.
[[nodiscard]] std::string reference_markdown();

// JSON Schema, draft 2020-12, closed: no other properties anywhere.
[[nodiscard]] std::string json_schema();

}  // namespace headrace::config
