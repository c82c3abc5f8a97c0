#include "runtime/config/layout.hpp"

#include <algorithm>
#include <utility>

namespace headrace::config {
namespace {

// Blocks, embedding and head, and the bars between as many stages.
constexpr std::size_t kTokensMax = 2 * (std::size_t{kLayersMax} + 2);

struct Token {
  char letter = 0;  // E, t, L or |
  std::size_t offset = 0;
};

std::string quoted(char c) { return std::string("'") + (c >= ' ' && c <= '~' ? c : '?') + "'"; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Text to letters and bars, with every repeat written out.
class Unroller {
 public:
  explicit Unroller(std::string_view text) : text_(text) {}

  std::optional<LayoutProblem> unroll() {
    for (;;) {
      skip_commas();
      if (problem_ || at_ == text_.size()) break;
      const char c = text_[at_];
      if (c == '(') {
        open_group();
      } else if (c == ')') {
        close_group();
      } else if (c == '*') {
        refuse(at_, "'*' repeats the letter or the group before it, and none stands there");
      } else {
        read_letter(c);
      }
    }
    if (!problem_ && is_in_group_) refuse(group_offset_, "this parenthesis is not closed");
    return problem_;
  }
  [[nodiscard]] const std::vector<Token>& tokens() const { return tokens_; }

 private:
  void refuse(std::size_t offset, std::string message) {
    if (!problem_) problem_ = LayoutProblem{offset, std::move(message)};
  }
  void skip_commas() {
    while (at_ < text_.size() && text_[at_] == ',') ++at_;
  }

  void read_letter(char c) {
    constexpr std::string_view kKnown =
        "; expected E (embedding), t (block), L (norm and head), '|' between stages, *n, "
        "parentheses or a comma";
    if (c == 'm')
      return refuse(at_,
                    "'m' is Megatron's multi-token prediction, a layer this build does not have; "
                    "leave it out");
    if (std::string_view("EtL|").find(c) == std::string_view::npos) {
      const bool is_case = std::string_view("elT").find(c) != std::string_view::npos;
      return refuse(at_, quoted(c) + " is no layer" + std::string(is_case ? " in this case" : "") +
                             std::string(kKnown));
    }
    const std::size_t begin = tokens_.size();
    const std::size_t offset = at_++;
    tokens_.push_back({c, offset});
    const std::int32_t count = read_repeat();
    if (problem_) return;
    if (c == '|' && count != 1)
      return refuse(offset, "a repeated '|' makes stages without layers; every stage needs one");
    repeat(begin, count, offset);
  }

  void open_group() {
    if (is_in_group_) return refuse(at_, "a group inside a group; Megatron's groups do not nest");
    is_in_group_ = true;
    group_begin_ = tokens_.size();
    group_offset_ = at_++;
  }

  void close_group() {
    if (!is_in_group_) return refuse(at_, "this parenthesis was not opened");
    if (tokens_.size() == group_begin_) return refuse(group_offset_, "an empty group");
    const std::size_t offset = at_++;
    skip_commas();
    if (at_ == text_.size() || text_[at_] != '*')
      return refuse(offset, "a group needs a count behind it, as in (tt|)*4");
    is_in_group_ = false;
    const std::int32_t count = read_repeat();
    if (!problem_) repeat(group_begin_, count, group_offset_);
  }

  // The n of `*n`, 1 where none stands.
  std::int32_t read_repeat() {
    skip_commas();
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    const std::size_t star = at_++;
    skip_commas();
    const std::size_t begin = at_;
    std::int32_t count = 0;
    while (at_ < text_.size() && is_digit(text_[at_]) && count <= kLayersMax)
      count = 10 * count + (text_[at_++] - '0');
    if (at_ == begin) {
      refuse(star, "'*' needs a count behind it, as in t*3");
    } else if (text_[begin] == '0' || count > kLayersMax) {
      refuse(begin, "the count must be a number from 1 to " + std::to_string(kLayersMax) +
                        " without leading zeros");
    }
    skip_commas();
    if (at_ < text_.size() && is_digit(text_[at_])) refuse(at_, "a comma inside a number");
    if (at_ < text_.size() && text_[at_] == '*')
      refuse(at_,
             "a repeat of a repeat; Megatron repeats the last letter alone or refuses, write one "
             "count");
    return count;
  }

  void repeat(std::size_t begin, std::int32_t count, std::size_t offset) {
    const std::size_t length = tokens_.size() - begin;
    if (begin + length * static_cast<std::size_t>(count) > kTokensMax)
      return refuse(offset, "the layout has more than " + std::to_string(kLayersMax) + " layers");
    for (std::int32_t i = 1; i < count; ++i)
      for (std::size_t k = 0; k < length; ++k) tokens_.push_back(Token{tokens_[begin + k]});
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool is_in_group_ = false;
  std::size_t group_begin_ = 0;   // in tokens_
  std::size_t group_offset_ = 0;  // in text_
  std::vector<Token> tokens_;
  std::optional<LayoutProblem> problem_;
};

class StageBuilder {
 public:
  StageBuilder(std::size_t text_size, SourcePosition first) : end_(text_size), first_(first) {}

  LayoutParse build(const std::vector<Token>& tokens) {
    parse_.stages.emplace_back();
    for (const Token& token : tokens) add(token);
    if (parse_.stages.back().layers.empty()) refuse_empty_stage(end_);
    if (!has_embedding_) refuse(0, "E, the embedding, is missing; it stands first");
    if (!has_head_) refuse(end_, "L, the norm and the head, is missing; it stands last");
    if (parse_.problem) parse_.stages.clear();
    return std::move(parse_);
  }

 private:
  void refuse(std::size_t offset, std::string message) {
    if (!parse_.problem) parse_.problem = LayoutProblem{offset, std::move(message)};
  }
  void refuse_empty_stage(std::size_t offset) {
    refuse(offset, "stage " + std::to_string(parse_.stages.size() - 1) +
                       " ends here without a layer; Megatron lets a stage be empty, here every "
                       "stage needs a layer");
  }

  void add(const Token& token) {
    if (token.letter == '|') {
      if (parse_.stages.back().layers.empty()) refuse_empty_stage(token.offset);
      parse_.stages.emplace_back();
      return;
    }
    if (has_head_)
      return refuse(token.offset, token.letter == 'L'
                                      ? "L stands a second time; a model has one norm and head"
                                      : quoted(token.letter) + " stands behind L, which is last");
    if (token.letter == 'E') {
      if (has_embedding_)
        return refuse(token.offset, "E stands a second time; a model has one embedding");
      if (has_block_) return refuse(token.offset, "E stands behind a block; it must be first");
      has_embedding_ = true;
      add_run("embedding", token);
    } else if (token.letter == 'L') {
      has_head_ = true;
      add_run("norm", token);
      add_run("head", token);
    } else {
      has_block_ = true;
      add_run("block", token);
    }
  }

  void add_run(std::string_view kind, const Token& token) {
    std::vector<LayerRun>& layers = parse_.stages.back().layers;
    if (!layers.empty() && layers.back().kind == kind) {
      ++layers.back().count;
      return;
    }
    SourcePosition position = first_;
    position.column += static_cast<std::int32_t>(token.offset);
    layers.push_back({std::string(kind), 1, position});
  }

  std::size_t end_;
  SourcePosition first_;
  bool has_embedding_ = false;
  bool has_block_ = false;
  bool has_head_ = false;
  LayoutParse parse_;
};

}  // namespace

LayoutParse parse_layout(std::string_view text, SourcePosition first) {
  if (text.empty()) return {{}, LayoutProblem{0, "an empty layout; write one such as Et*3|t*4L"}};
  Unroller unroller(text);
  if (std::optional<LayoutProblem> problem = unroller.unroll()) return {{}, std::move(problem)};
  return StageBuilder(text.size(), first).build(unroller.tokens());
}

}  // namespace headrace::config
