// Structured log lines: `event key=value …` with a component, through spdlog (in the .cpp only).
//
// What it is for: one event per line on stderr; error = someone must act, info at most once a step.
// What it does not do: print results (the CLI does). Thread rule: shared, safe on any thread.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace headrace {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One `key=value` of a log line; values with blanks or quotes are quoted.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <typename Number>
  LogField(std::string_view k, Number v) : key(k), value(std::to_string(v)) {}

  std::string_view key;
  std::string value;
};

void set_log_level(LogLevel least);
void log(LogLevel level, std::string_view component, std::string_view event,
         std::initializer_list<LogField> fields = {});

}  // namespace headrace
