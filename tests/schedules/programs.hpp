// Programs for the tests: from a spec or from text.
#pragma once

#include "schedules/program.hpp"
#include "schedules/registry.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace headrace::schedules::testing {

// One row per rank, cells joined by ','. Placement loop.
inline Program program_of_rows(const std::vector<std::string>& rows, std::int32_t chunks,
                               std::int32_t microbatches) {
  Program program;
  program.schedule = "test";
  program.ranks = static_cast<std::int32_t>(rows.size());
  program.chunks = chunks;
  program.stages = program.ranks * chunks;
  program.microbatches = microbatches;
  for (const std::string& row : rows) {
    std::vector<Action>& list = program.actions.emplace_back();
    std::size_t begin = 0;
    while (begin < row.size()) {
      const std::size_t end = std::min(row.find(',', begin), row.size());
      list.push_back(parse_action(std::string_view(row).substr(begin, end - begin)).value());
      begin = end + 1;
    }
  }
  return program;
}

struct Shape {
  std::int32_t ranks;
  std::int32_t microbatches;
  std::int32_t chunks = 1;
};

inline ScheduleSpec spec_of(std::string_view name, Shape shape) {
  ScheduleSpec spec;
  spec.name = std::string(name);
  spec.ranks = shape.ranks;
  spec.microbatches = shape.microbatches;
  spec.chunks = shape.chunks;
  return spec;
}

inline Program program_of(std::string_view name, Shape shape) {
  return make_program(spec_of(name, shape)).value();
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace headrace::schedules::testing
