// Medians of short series of measurements.
//
// What it is for: every figure is a median, since a shared machine disturbs means. What it does not
// do: statistics beyond that. Thread rule: free functions, safe on any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace headrace::bench {

[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return 0.5 * (values[middle - 1] + values[middle]);
}

[[nodiscard]] inline double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

}  // namespace headrace::bench
