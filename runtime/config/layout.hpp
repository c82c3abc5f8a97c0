// Megatron's pipeline layout strings, such as `Et*3|(tt|)*29,L`, as stages.
//
// What it is for: `stages:` may be one text instead of a list. What it does not do: compare with
// the model or the pipeline (rules.hpp). Thread rule: free functions, safe on any thread.
//
// The notation is Megatron-LM's (PipelineParallelLayerLayout): E is the embedding, t a transformer
// block, L the loss, which Megatron puts together with the final norm, hence norm and head here;
// `|` stands between stages, `*n` repeats the letter or the group in parentheses before it, commas
// mean nothing. Narrower than Megatron, because layers and stages never vanish: no empty stage, no
// `*0`. Refused by name: m (multi-token prediction), which this build has no layer for. Refused
// as ambiguous, since Megatron expands by text: a repeat of a repeat (`t*2*3`) and a comma inside
// a number.
#pragma once

#include "runtime/config/config.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::config {

struct LayoutProblem {
  std::size_t offset = 0;  // into the text; its size for what is missing at the end
  std::string message;
};

struct LayoutParse {
  std::vector<StageConfig> stages;  // neighbouring blocks of a stage are one run
  std::optional<LayoutProblem> problem;
};

// `first` is where the text's first character stands; the runs get the places of their letters.
[[nodiscard]] LayoutParse parse_layout(std::string_view text, SourcePosition first);

}  // namespace headrace::config
