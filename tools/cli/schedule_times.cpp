#include "tools/cli/schedule_request.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <system_error>

namespace headrace::cli {
namespace {

Status refuse(const std::string& text, const std::string& why) {
  return {StatusCode::kUsage, "--times " + text + ": " + why + "; as in --times F=1,B=2,I=1,W=1"};
}

// Letters to durations, exactly as written.
Result<std::map<char, double>> read_letters(const std::string& text) {
  std::map<char, double> given;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end + 1;
    if (part.size() < 3 || part[1] != '=' || std::string("FBIW").find(part[0]) == std::string::npos)
      return refuse(text, "'" + part + "' is no duration");
    double value = 0;
    const char* last = part.data() + part.size();
    const auto read = std::from_chars(part.data() + 2, last, value);
    if (read.ec != std::errc() || read.ptr != last || !(value >= 0 && value <= kTimeMax))
      return refuse(text, "'" + part + "' needs a number of at least 0 and at most 1e12");
    if (!given.emplace(part[0], value).second)
      return refuse(text, std::string(1, part[0]) + " is there twice");
  }
  return given;
}

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

}  // namespace

Result<ActionTimes> parse_times(const std::string& text) {
  ActionTimes times;
  if (text.empty()) return times;
  const auto letters = read_letters(text);
  if (!letters) return letters.status();
  const auto has = [&](char letter) { return letters->count(letter) != 0; };
  const auto value = [&](char letter) { return letters->at(letter); };
  if (has('F')) times.forward = value('F');
  if (has('B')) times.backward = value('B');
  if (has('I') && has('W')) {
    times.backward_input = value('I');
    times.backward_weight = value('W');
    const double sum = times.backward_input + times.backward_weight;
    if (!has('B')) times.backward = sum;
    times.backward_differs = !is_near(times.backward, sum);
    if (times.backward_differs)
      times.note = "B = " + number_text(times.backward) + " is not I + W = " + number_text(sum) +
                   ": B counts where a schedule has full backwards, I and W where it splits them";
    return times;
  }
  if (has('I') || has('W')) {
    const char known = has('I') ? 'I' : 'W';
    const char other = has('I') ? 'W' : 'I';
    if (!has('B'))
      return refuse(text, std::string(1, known) + " needs " + other + " or B beside it");
    const double rest = value('B') - value(known);
    if (rest < 0)
      return refuse(text, std::string(1, known) + " = " + number_text(value(known)) +
                              " is more than B = " + number_text(value('B')));
    times.backward_input = known == 'I' ? value(known) : rest;
    times.backward_weight = known == 'W' ? value(known) : rest;
    times.note = std::string(1, other) + " = B - " + known + " = " + number_text(rest);
    return times;
  }
  if (!has('B')) return times;
  times.backward_input = times.backward_weight = times.backward / 2;
  times.note = "I = W = B / 2 = " + number_text(times.backward / 2);
  return times;
}

Result<schedules::StageCost> stage_cost(const schedules::Program& program,
                                        const ActionTimes& times) {
  bool has_full = false;
  bool has_halves = false;
  for (const auto& list : program.actions)
    for (const schedules::Action& action : list) {
      has_full = has_full || action.kind == schedules::ActionKind::kBackward;
      has_halves = has_halves || action.kind == schedules::ActionKind::kBackwardInput ||
                   action.kind == schedules::ActionKind::kBackwardWeight;
    }
  schedules::StageCost cost{times.forward, times.backward_input, times.backward_weight};
  if (!times.backward_differs || !has_full) return cost;
  if (has_halves)
    return Status(
        StatusCode::kConfig,
        "schedule " + program.schedule +
            " has both full and split backwards, so B = " + number_text(times.backward) +
            " must be I + W = " + number_text(times.backward_input + times.backward_weight) +
            "; leave B out of --times");
  cost.backward_input = cost.backward_weight = times.backward / 2;
  return cost;
}

}  // namespace headrace::cli
