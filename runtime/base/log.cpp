#include "runtime/base/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

namespace headrace {
namespace {

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> instance = [] {
    auto made = spdlog::stderr_logger_mt("headrace");
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *instance;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

void append_value(std::string& line, const std::string& value) {
  if (!value.empty() && value.find_first_of(" \"\n=") == std::string::npos) {
    line += value;
    return;
  }
  line += '"';
  for (char c : value) {
    if (c == '"' || c == '\\') line += '\\';
    if (c == '\n')
      line += "\\n";
    else
      line += c;
  }
  line += '"';
}

}  // namespace

void set_log_level(LogLevel least) { logger().set_level(to_spdlog(least)); }

void log(LogLevel level, std::string_view component, std::string_view event,
         std::initializer_list<LogField> fields) {
  const auto spd_level = to_spdlog(level);
  if (!logger().should_log(spd_level)) return;
  std::string line(event);
  line += " component=";
  line += component;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    append_value(line, field.value);
  }
  logger().log(spd_level, "{}", line);
}

}  // namespace headrace
