#include "schedules/action.hpp"

#include <array>
#include <charconv>
#include <cstddef>

namespace headrace::schedules {
namespace {

struct KindText {
  ActionKind kind;
  std::string_view text;
  bool has_stage;
  bool has_microbatch;
};

// In the order of ActionKind, so that printing is an index.
constexpr std::array<KindText, 14> kKindTexts{{
    {ActionKind::kForward, "F", true, true},
    {ActionKind::kBackward, "B", true, true},
    {ActionKind::kBackwardInput, "I", true, true},
    {ActionKind::kBackwardWeight, "W", true, true},
    {ActionKind::kSendForward, "SEND_F", true, true},
    {ActionKind::kRecvForward, "RECV_F", true, true},
    {ActionKind::kSendBackward, "SEND_B", true, true},
    {ActionKind::kRecvBackward, "RECV_B", true, true},
    {ActionKind::kReduceGrad, "REDUCE_GRAD", true, false},
    {ActionKind::kTiedSend, "TIED_SEND", true, false},
    {ActionKind::kTiedRecv, "TIED_RECV", true, false},
    {ActionKind::kNorm, "NORM", false, false},
    {ActionKind::kCommit, "COMMIT", false, false},
    {ActionKind::kOptimizer, "OPTIMIZER", false, false},
}};

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string shown(std::string_view text) {
  constexpr std::size_t kShownBytesMax = 40;
  std::string out = "'";
  for (char c : text.substr(0, kShownBytesMax)) out += (c >= ' ' && c <= '~') ? c : '?';
  return out + (text.size() > kShownBytesMax ? "...'" : "'");
}

Status malformed(std::string_view text, std::string_view why) {
  return {StatusCode::kConfig, shown(text) + " is no action: " + std::string(why) +
                                   "; write stage, kind, microbatch, such as 2F0, 1I3, 0W3, "
                                   "1SEND_F3, 0REDUCE_GRAD or NORM"};
}

// Decimal digits without a leading zero, within 32 bits.
bool parse_number(std::string_view digits, std::int32_t* value) {
  if (digits.size() > 1 && digits.front() == '0') return false;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  return error == std::errc{} && end == digits.data() + digits.size();
}

}  // namespace

std::string to_string(const Action& action) {
  const KindText& kind = kKindTexts[static_cast<std::size_t>(action.kind)];
  std::string out;
  if (kind.has_stage) out += std::to_string(action.stage.value);
  out += kind.text;
  if (kind.has_microbatch) out += std::to_string(action.microbatch.value);
  return out;
}

Result<Action> parse_action(std::string_view text) {
  std::size_t kind_begin = 0;
  while (kind_begin < text.size() && is_digit(text[kind_begin])) ++kind_begin;
  std::size_t kind_end = text.size();
  while (kind_end > kind_begin && is_digit(text[kind_end - 1])) --kind_end;
  const std::string_view stage_text = text.substr(0, kind_begin);
  const std::string_view kind_text = text.substr(kind_begin, kind_end - kind_begin);
  const std::string_view microbatch_text = text.substr(kind_end);

  for (const KindText& kind : kKindTexts) {
    if (kind.text != kind_text) continue;
    if (kind.has_stage == stage_text.empty())
      return malformed(text, kind.has_stage ? "the stage is missing" : "this kind takes no stage");
    if (kind.has_microbatch == microbatch_text.empty())
      return malformed(text, kind.has_microbatch ? "the microbatch is missing"
                                                 : "this kind takes no microbatch");
    Action action{kind.kind, StageIndex{0}, MicrobatchIndex{0}};
    if (kind.has_stage && !parse_number(stage_text, &action.stage.value))
      return malformed(text, "the stage is no number from 0 to 2147483647 without leading zeros");
    if (kind.has_microbatch && !parse_number(microbatch_text, &action.microbatch.value))
      return malformed(text,
                       "the microbatch is no number from 0 to 2147483647 without leading zeros");
    return action;
  }
  return malformed(text, kind_text.empty() ? "the kind is missing"
                                           : "the kind " + shown(kind_text) + " is unknown");
}

}  // namespace headrace::schedules
