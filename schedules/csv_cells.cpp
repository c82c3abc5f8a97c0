#include "schedules/detail/csv_parts.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <set>
#include <tuple>

namespace headrace::schedules::detail {
namespace {

constexpr std::size_t kFaultsMax = 64;
constexpr std::string_view kPairKind = "OVERLAP_F_B";
constexpr std::string_view kExamples = "write 2F0, 2B0, 2I0, 2W0, 1SEND_F3 or (2F3;5B1)OVERLAP_F_B";

enum class CellUse { kAction, kOldBackward, kSharding, kSendWait, kStepEnd };

struct CellKind {
  std::string_view text;
  CellUse use;
  ActionKind kind;
};

constexpr std::array<CellKind, 20> kCellKinds{{
    {"F", CellUse::kAction, ActionKind::kForward},
    {"B", CellUse::kAction, ActionKind::kBackward},
    {"I", CellUse::kAction, ActionKind::kBackwardInput},
    {"W", CellUse::kAction, ActionKind::kBackwardWeight},
    {"BW", CellUse::kOldBackward, ActionKind::kBackward},
    {"SEND_F", CellUse::kAction, ActionKind::kSendForward},
    {"RECV_F", CellUse::kAction, ActionKind::kRecvForward},
    {"SEND_B", CellUse::kAction, ActionKind::kSendBackward},
    {"RECV_B", CellUse::kAction, ActionKind::kRecvBackward},
    {"UNSHARD", CellUse::kSharding, ActionKind::kReduceGrad},
    {"RESHARD", CellUse::kSharding, ActionKind::kReduceGrad},
    {"REDUCE_GRAD", CellUse::kSharding, ActionKind::kReduceGrad},
    {"WAIT_REDUCE_GRAD", CellUse::kSharding, ActionKind::kReduceGrad},
    {"WAIT_SEND_F", CellUse::kSendWait, ActionKind::kSendForward},
    {"WAIT_SEND_B", CellUse::kSendWait, ActionKind::kSendBackward},
    {"TIED_SEND", CellUse::kStepEnd, ActionKind::kTiedSend},
    {"TIED_RECV", CellUse::kStepEnd, ActionKind::kTiedRecv},
    {"NORM", CellUse::kStepEnd, ActionKind::kNorm},
    {"COMMIT", CellUse::kStepEnd, ActionKind::kCommit},
    {"OPTIMIZER", CellUse::kStepEnd, ActionKind::kOptimizer},
}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Decimal digits without a leading zero, below 2^31 - 1 so that a count of them fits too.
bool parse_number(std::string_view digits, std::int32_t* value) {
  if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return false;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  return error == std::errc{} && end == digits.data() + digits.size() && *value < INT32_MAX;
}

// One action without a pair's parentheses. Returns why it is none, empty if it is one.
std::string parse_single(std::string_view text, WrittenAction* out, CellUse* use) {
  std::size_t kind_begin = 0;
  while (kind_begin < text.size() && is_digit(text[kind_begin])) ++kind_begin;
  std::size_t kind_end = text.size();
  while (kind_end > kind_begin && is_digit(text[kind_end - 1])) --kind_end;
  const std::string_view kind_text = text.substr(kind_begin, kind_end - kind_begin);
  const std::string_view microbatch = text.substr(kind_end);
  for (const CellKind& kind : kCellKinds) {
    if (kind.text != kind_text) continue;
    *use = kind.use;
    if (kind.use == CellUse::kStepEnd)
      return "is a part of the step's end, which is added to every schedule; leave it out";
    const bool is_sharding = kind.use == CellUse::kSharding;
    out->action = {kind.kind, StageIndex{0}, MicrobatchIndex{0}};
    out->is_bw = kind.use == CellUse::kOldBackward;
    if (!parse_number(text.substr(0, kind_begin), &out->action.stage.value))
      return "is no action: the stage must be a number from 0 to 2147483646 without leading zeros";
    if (is_sharding && !microbatch.empty())
      return "is no action: " + std::string(kind_text) + " takes no microbatch";
    if (!is_sharding && !parse_number(microbatch, &out->action.microbatch.value))
      return "is no action: the microbatch must be a number from 0 to 2147483646 without leading "
             "zeros";
    return {};
  }
  return "is no action; " + std::string(kExamples);
}

// `(F;B)OVERLAP_F_B`, the parenthesis already seen.
std::string parse_pair(std::string_view text, std::array<WrittenAction, 2>* out) {
  const std::size_t close = text.find(')');
  if (close == std::string_view::npos) return "is no pair: the parenthesis is not closed";
  if (text.substr(close + 1) != kPairKind)
    return "is no pair: OVERLAP_F_B must follow the parenthesis";
  const std::string_view inside = text.substr(1, close - 1);
  const std::size_t split = inside.find(';');
  if (inside.empty()) return "is an empty pair; write (2F3;5B1)OVERLAP_F_B";
  if (split == std::string_view::npos || inside.find(';', split + 1) != std::string_view::npos)
    return "is no pair: it needs two actions, a forward and a backward, with ';' between";
  const std::array<std::string_view, 2> halves{inside.substr(0, split), inside.substr(split + 1)};
  for (std::size_t i = 0; i < 2; ++i) {
    CellUse use = CellUse::kAction;
    const std::string why = parse_single(halves[i], &(*out)[i], &use);
    if (!why.empty()) return "is no pair: " + quoted_cell(halves[i]) + " " + why;
  }
  const Action& forward = (*out)[0].action;
  const Action& backward = (*out)[1].action;
  if (forward.kind != ActionKind::kForward ||
      (backward.kind != ActionKind::kBackward && backward.kind != ActionKind::kBackwardInput))
    return "is no pair: the first must be a forward F, the second a backward B or I";
  if (forward.microbatch == backward.microbatch)
    return "is no pair: the backward of microbatch " + std::to_string(backward.microbatch.value) +
           " needs its forward, which is not over before the block ends";
  (*out)[0].action.overlaps_next = true;
  return {};
}

// What spoils a cell before it is looked at as an action; empty if nothing does.
std::string spoilt(std::string_view cell) {
  for (const char c : cell) {
    if (c == '\0') return "holds a NUL byte; the file is no text";
    if (c == '"' || c == '\'') return "is quoted; write the action without quotes";
    if (c == ' ' || c == '\t') return "holds blanks; write the action without any";
    if (c == '\r') return "holds a carriage return; rows end with LF or CRLF";
    if (c < ' ' || c > '~') return "holds a byte that is not printable ASCII";
  }
  return {};
}

class GridReader {
 public:
  GridReader(WrittenGrid* grid, std::vector<CsvFault>* faults) : grid_(*grid), faults_(*faults) {}

  void read_row(std::string_view row) {
    std::vector<WrittenAction>& actions = grid_.rows.emplace_back();
    std::int32_t cell = 0;
    open_sends_.clear();
    const std::size_t faults_before = faults_.size();
    for (std::size_t begin = 0; begin <= row.size(); ++cell) {
      const std::size_t end = std::min(row.find(',', begin), row.size());
      read_cell(row.substr(begin, end - begin), cell, &actions);
      begin = end + 1;
    }
    if (actions.empty() && faults_.size() == faults_before)
      fault(-1, row.empty()
                    ? "the row is empty; every rank needs actions, and the file no blank line"
                    : "the row holds no action; every rank needs some");
  }
  [[nodiscard]] bool is_full() const { return faults_.size() >= kFaultsMax; }

 private:
  void fault(std::int32_t cell, std::string text) {
    const auto rank = static_cast<std::int32_t>(grid_.rows.size()) - 1;
    if (!is_full()) faults_.push_back({rank, cell, std::move(text)});
  }

  void read_cell(std::string_view text, std::int32_t cell, std::vector<WrittenAction>* actions) {
    if (text.empty()) {
      ++grid_.idle_cells;
      return;
    }
    std::string why = spoilt(text);
    if (why.empty() && text.front() == '(') {
      std::array<WrittenAction, 2> pair;
      why = parse_pair(text, &pair);
      if (why.empty()) {
        for (WrittenAction& half : pair) {
          half.cell = cell;
          actions->push_back(half);
        }
      }
    } else if (why.empty()) {
      WrittenAction single;
      CellUse use = CellUse::kAction;
      why = parse_single(text, &single, &use);
      single.cell = cell;
      if (why.empty() && use == CellUse::kSharding) {
        if (grid_.sharding_cells++ == 0) grid_.first_sharding_cell = text;
      } else if (why.empty() && use == CellUse::kSendWait) {
        if (open_sends_.erase(send_of(single.action)) == 0)
          why = "waits for no send that stands before it in the row";
        else if (grid_.send_wait_cells++ == 0)
          grid_.first_send_wait_cell = text;
      } else if (why.empty()) {
        if (single.action.kind == ActionKind::kSendForward ||
            single.action.kind == ActionKind::kSendBackward)
          open_sends_.insert(send_of(single.action));
        actions->push_back(single);
      }
    }
    if (!why.empty()) fault(cell, quoted_cell(text) + " " + why);
  }

  using Send = std::tuple<ActionKind, std::int32_t, std::int32_t>;  // kind, stage, microbatch
  static Send send_of(const Action& action) {
    return {action.kind, action.stage.value, action.microbatch.value};
  }

  WrittenGrid& grid_;
  std::vector<CsvFault>& faults_;
  std::set<Send> open_sends_;  // of the row, without a wait so far
};

}  // namespace

std::string quoted_cell(std::string_view text) {
  constexpr std::size_t kShownBytesMax = 40;
  std::string out = "'";
  for (const char c : text.substr(0, kShownBytesMax)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out + (text.size() > kShownBytesMax ? "...'" : "'");
}

std::string cell_text(const std::vector<Action>& list, std::size_t* index) {
  const Action& first = list[(*index)++];
  if (!first.overlaps_next || *index == list.size()) return to_string(first);
  const Action& second = list[*index];
  if (second.kind != ActionKind::kBackward && second.kind != ActionKind::kBackwardInput)
    return to_string(first);
  ++*index;
  return "(" + to_string(first) + ";" + to_string(second) + ")" + std::string(kPairKind);
}

void read_grid(std::string_view text, WrittenGrid* grid, std::vector<CsvFault>* faults) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  constexpr std::size_t kFileBytesMax = std::size_t{1} << 30;
  if (text.empty()) return faults->push_back({-1, -1, "the file is empty"});
  if (text.size() > kFileBytesMax)
    return faults->push_back({-1, -1, "the file is larger than 1 GiB"});
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
    return faults->push_back(
        {0, 0, "the file begins with a byte order mark; save it as UTF-8 without one"});
  GridReader reader(grid, faults);
  while (!text.empty() && !reader.is_full()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    if (end < text.size() && !row.empty() && row.back() == '\r') row.remove_suffix(1);
    reader.read_row(row);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace headrace::schedules::detail
