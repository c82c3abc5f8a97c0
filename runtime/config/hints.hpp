// "did you mean …": the valid key or word nearest to what was written.
//
// What it is for: a misspelt, misplaced or foreign key is answered with the right one. What it does
// not do: accept it. Thread rule: free functions, safe on any thread.
#pragma once

#include "runtime/config/words.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace headrace::config {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// For a key written in `section` (empty = top level): "did you mean optimizer.learning_rate?", else
// the keys that section has.
[[nodiscard]] std::string key_hint(std::string_view section, std::string_view key);

// For a word that is none of `words`: the words, and the nearest one when it is near.
[[nodiscard]] std::string word_hint(Words words, std::string_view written);

}  // namespace headrace::config
