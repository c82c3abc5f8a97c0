#include "runtime/config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <sstream>
#include <utility>

namespace headrace::config {
namespace {

SourcePosition position_of(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return {mark.line + 1, mark.column + 1, 0};
}

// Leaves yaml-cpp's parser from inside an event; never leaves this file.
struct Refused {
  YamlProblem problem;
};

[[noreturn]] void refuse(SourcePosition position, std::string message) {
  throw Refused{{position, std::move(message)}};
}

bool is_null_word(std::string_view word) {
  return word == "null" || word == "Null" || word == "NULL" || word == "~";
}

// Builds the tree from yaml-cpp's events, with the open collections on a stack of its own.
class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::string_view text) : text_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    // yaml-cpp also calls a stray text after a closed value a new document.
    const auto offset = static_cast<std::size_t>(mark.pos < 0 ? 0 : mark.pos);
    const bool marked = text_.substr(0, offset + 3).find("\n---") != std::string_view::npos;
    refuse(position_of(mark), marked ? "a second document starts here; keep one"
                                     : "this does not continue what stands before it; check quotes "
                                       "and indentation");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_decoration(mark, "", anchor);
    YamlNode node;
    node.kind = is_null_word(word_at(mark)) ? NodeKind::kNull : NodeKind::kEmpty;
    node.position = position_of(mark);
    // yaml-cpp keeps the word away from us; a key that is null is named as it was written.
    if (node.kind == NodeKind::kNull) node.text = word_at(mark);
    attach(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(position_of(mark), "aliases (*name) are not supported; write the value out");
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_decoration(mark, tag, anchor);
    check_one_line(mark, value);
    YamlNode node;
    node.kind = tag == "!" ? NodeKind::kQuoted : NodeKind::kPlain;
    node.text = value;
    node.position = position_of(mark);
    attach(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(NodeKind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(NodeKind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

  [[nodiscard]] YamlNode take_root() { return std::move(root_); }

 private:
  struct OpenCollection {
    YamlNode node;
    std::optional<YamlEntry> pending;  // a map key that waits for its value
  };

  static void check_decoration(const YAML::Mark& mark, const std::string& tag,
                               YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      refuse(position_of(mark), "anchors (&name) are not supported; write the value out");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      refuse(position_of(mark), "tags (" + tag + ") are not supported; write the value alone");
    }
  }

  // What is typed on one line is meant as one value: an unclosed quote (which yaml-cpp lets run to
  // the end of the file), a forgotten colon and a block text all show as a value over several
  // lines.
  void check_one_line(const YAML::Mark& mark, const std::string& value) const {
    const std::string_view rest = text_from(mark);
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const char first = line.empty() ? ' ' : line.front();
    if (first == '"' || first == '\'') {
      if (!closes_quote(line)) refuse(position_of(mark), "a quote that is not closed on its line");
    } else if (first == '|' || first == '>') {
      refuse(position_of(mark), "block texts (| and >) are not supported; write it on one line");
    } else if (first == '!') {
      refuse(position_of(mark), "tags (!) are not supported; write the value alone");
    } else if (!line.starts_with(value)) {
      refuse(position_of(mark), "a value over several lines; keep it on one, or is a ':' missing?");
    }
  }

  static bool closes_quote(std::string_view line) {
    const char quote = line.front();
    for (std::size_t i = 1; i < line.size(); ++i) {
      if (line[i] == '\\' && quote == '"')
        ++i;
      else if (line[i] == quote)
        return true;
    }
    return false;
  }

  [[nodiscard]] std::string_view text_from(const YAML::Mark& mark) const {
    const auto begin = static_cast<std::size_t>(mark.pos < 0 ? 0 : mark.pos);
    return begin >= text_.size() ? std::string_view{} : text_.substr(begin);
  }

  [[nodiscard]] std::string_view word_at(const YAML::Mark& mark) const {
    const std::string_view rest = text_from(mark).substr(0, 5);
    return rest.substr(0, rest.find_first_of(" \t\r\n,:]}#"));
  }

  void open(NodeKind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_decoration(mark, tag, anchor);
    if (stack_.size() >= kYamlDepthMax) refuse(position_of(mark), "nested too deeply");
    OpenCollection collection;
    collection.node.kind = kind;
    collection.node.position = position_of(mark);
    stack_.push_back(std::move(collection));
  }

  void close() {
    YamlNode node = std::move(stack_.back().node);
    stack_.pop_back();
    attach(std::move(node));
  }

  void attach(YamlNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenCollection& parent = stack_.back();
    if (parent.node.kind == NodeKind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (parent.pending) {
      parent.pending->value = std::move(node);
      parent.node.entries.push_back(std::move(*parent.pending));
      parent.pending.reset();
    } else {
      parent.pending = make_key(std::move(node));
    }
  }

  static YamlEntry make_key(YamlNode node) {
    if (node.kind == NodeKind::kList || node.kind == NodeKind::kMap) {
      refuse(node.position, "a key must be a word, not " + std::string(describe(node.kind)));
    }
    if (node.kind == NodeKind::kEmpty || node.text.empty()) {
      refuse(node.position, "a key is missing before this ':'");
    }
    if (node.text == "<<") {
      refuse(node.position, "merge keys (<<) are not supported; write the keys out");
    }
    return {std::move(node.text), node.position, {}};
  }

  std::string_view text_;
  std::vector<OpenCollection> stack_;
  YamlNode root_;
  int documents_ = 0;
};

// yaml-cpp's words, or plainer ones for the mistakes that people make.
std::string explain(const std::string& words) {
  if (words == "end of map not found") {
    return "this line does not fit those before it; a key needs the indentation of its neighbours, "
           "a "
           "colon and a blank";
  }
  if (words == "end of map flow not found") return "a map opened with { is not closed";
  if (words == "end of sequence flow not found") return "a list opened with [ is not closed";
  return "not YAML: " + words;
}

// The line and column of a byte offset; columns count bytes.
SourcePosition position_at(std::string_view text, std::size_t offset) {
  SourcePosition position{1, 1, 0};
  for (std::size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++position.line;
      position.column = 1;
    } else {
      ++position.column;
    }
  }
  return position;
}

// yaml-cpp reads a tab after a key as a blank and one before it as part of something else; neither
// tells the user which line to look at.
std::optional<YamlProblem> find_bad_byte(std::string_view text) {
  bool indenting = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n') {
      indenting = true;
      continue;
    }
    if (byte == '\t' && indenting) {
      return YamlProblem{position_at(text, i), "a tab as indentation; use spaces"};
    }
    if ((byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7f) {
      return YamlProblem{position_at(text, i), "a control character; the file must be plain text"};
    }
    if (byte != ' ') indenting = false;
  }
  return std::nullopt;
}

// Length of the well-formed UTF-8 sequence at the front, 0 when there is none.
std::size_t utf8_length(std::string_view rest) {
  const auto lead = static_cast<unsigned char>(rest[0]);
  std::size_t length = 0;
  if (lead < 0x80) length = 1;
  if (lead >= 0xc2 && lead < 0xe0) length = 2;
  if (lead >= 0xe0 && lead < 0xf0) length = 3;
  if (lead >= 0xf0 && lead < 0xf5) length = 4;
  if (length == 0 || rest.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(rest[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::optional<YamlProblem> find_bad_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) return YamlProblem{position_at(text, i), "this byte is not UTF-8"};
    i += length;
  }
  return std::nullopt;
}

std::optional<YamlProblem> check_bytes(std::string_view text) {
  if (text.size() > kYamlBytesMax) {
    return YamlProblem{{1, 1, 0}, "the file has more than 1 MiB; this is no configuration"};
  }
  if (auto problem = find_bad_byte(text)) return problem;
  return find_bad_utf8(text);
}

}  // namespace

YamlParse parse_yaml(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  YamlParse result;
  result.problem = check_bytes(text);
  if (result.problem) return result;
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    TreeBuilder builder(text);
    while (parser.HandleNextDocument(builder)) {
    }
    result.root = builder.take_root();
  } catch (const Refused& refused) {
    result.problem = refused.problem;
  } catch (const YAML::Exception& error) {
    result.problem = YamlProblem{position_of(error.mark), explain(error.msg)};
  } catch (const std::exception& error) {
    result.problem = YamlProblem{{1, 1, 0}, std::string("not YAML: ") + error.what()};
  }
  return result;
}

std::string_view describe(NodeKind kind) {
  switch (kind) {
    case NodeKind::kEmpty:
      return "an empty value";
    case NodeKind::kNull:
      return "null";
    case NodeKind::kPlain:
      return "a single value";
    case NodeKind::kQuoted:
      return "a quoted text";
    case NodeKind::kList:
      return "a list";
    case NodeKind::kMap:
      return "a map";
  }
  return "something else";
}

}  // namespace headrace::config
