// A user's layer kind, for tests and docs/LAYERS.md.
//
// What it is for: showing that a kind is one file. What it does not do: belong to the library.
// Thread rule: register before the first model is built.
#pragma once

#include "runtime/base/status.hpp"

[[nodiscard]] headrace::Status register_residual_linear();
