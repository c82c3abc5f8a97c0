#include "runtime/config/scalars.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>

namespace headrace::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Status refused(std::string_view text, std::string_view why) {
  return {StatusCode::kConfig, "'" + std::string(text) + "' " + std::string(why)};
}

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

std::string lower_without_sign(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Names the habit behind a text that is no number; empty when there is none to name.
std::string_view diagnose(std::string_view text) {
  const std::string body = lower_without_sign(text);
  if (body == ".inf" || body == "inf" || body == "infinity") return "is not a finite number";
  if (body == ".nan" || body == "nan") return "is not a number";
  if (body.starts_with("0x") || body.starts_with("0o") || body.starts_with("0b")) {
    return "is not decimal; write the number in decimal digits";
  }
  if (body.find('_') != std::string::npos) return "has an underscore; write the digits together";
  if (body.find(',') != std::string::npos) return "has a comma; write the digits together";
  if (text.starts_with('+')) return "has a plus sign; leave it out";
  return {};
}

bool has_leading_zero(std::string_view text) {
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  return text.size() > begin + 1 && text[begin] == '0' && is_digit(text[begin + 1]);
}

// End of the longest number at the front of `text`; 0 when there is none.
std::size_t number_end(std::string_view text) {
  std::size_t at = text.starts_with('-') ? 1 : 0;
  const std::size_t whole = skip_digits(text, at);
  std::size_t digits = whole - at;
  at = whole;
  if (at < text.size() && text[at] == '.') {
    const std::size_t fraction = skip_digits(text, at + 1);
    digits += fraction - (at + 1);
    at = fraction;
  }
  if (digits == 0) return 0;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t exponent = at + 1;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+')) ++exponent;
    const std::size_t end = skip_digits(text, exponent);
    if (end > exponent) at = end;
  }
  return at;
}

std::optional<Status> refuse_shape(std::string_view text, std::string_view wanted) {
  if (const std::string_view why = diagnose(text); !why.empty()) return refused(text, why);
  const std::size_t end = number_end(text);
  if (end == 0) return refused(text, "is not " + std::string(wanted));
  if (end < text.size()) {
    return refused(text, "has '" + std::string(text.substr(end)) + "' after the number");
  }
  if (has_leading_zero(text)) return refused(text, "has a leading zero; write it without");
  return std::nullopt;
}

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_'; }

bool is_kind_word(std::string_view word) {
  return !word.empty() && word[0] >= 'a' && word[0] <= 'z' &&
         std::all_of(word.begin(), word.end(), is_word_char);
}

}  // namespace

Result<std::int64_t> parse_integer(std::string_view text) {
  if (auto problem = refuse_shape(text, "an integer")) return *problem;
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  if (skip_digits(text, begin) != text.size()) {
    return refused(text, "is not an integer; write decimal digits only");
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return refused(text, "does not fit in 64 bits");
  return value;
}

Result<double> parse_number(std::string_view text) {
  if (auto problem = refuse_shape(text, "a number")) return *problem;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return refused(text, "lies outside what fp64 can hold");
  return value;
}

Result<bool> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return refused(text, "is not a boolean; write true or false");
}

Result<LayerRun> parse_layer_run(std::string_view text) {
  const std::size_t star = text.find('*');
  LayerRun run;
  run.kind = std::string(text.substr(0, star));
  if (!is_kind_word(run.kind)) {
    return refused(text, "is not a layer; write a kind such as block, or block*3");
  }
  if (star == std::string_view::npos) return run;
  Result<std::int64_t> count = parse_integer(text.substr(star + 1));
  if (!count.is_ok()) {
    return refused(text, "needs a count of layers after '*': " + count.status().message());
  }
  if (*count < 1 || *count > kLayersMax) {
    return refused(text, "has a count out of range; expected 1.." + std::to_string(kLayersMax));
  }
  run.count = static_cast<std::int32_t>(*count);
  return run;
}

Result<FaultPoint> parse_fault_point(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const Result<std::int64_t> stage = parse_integer(text.substr(0, colon));
    const Result<std::int64_t> step = parse_integer(text.substr(colon + 1));
    if (stage.is_ok() && step.is_ok() && *stage >= 0 && *stage < kLayersMax && *step >= 1) {
      return FaultPoint{static_cast<std::int32_t>(*stage), *step};
    }
  }
  return refused(text, "is not STAGE:STEP, such as 1:5");
}

std::string format_number(double value) {
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  std::string text(buffer.data(), end);
  if (text.find('.') != std::string::npos) return text;
  // With a point every reader, YAML 1.1 ones included, sees a number and not a text.
  const std::size_t exponent = text.find('e');
  text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  return text;
}

std::string quote_text(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += "\\x";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace headrace::config
