// Numbers, booleans and layer runs as text, judged by our own rules before anything is converted.
//
// What it is for: `1e-4` is a number, `010`, `1e-4x`, `1_000`, `.inf` are not, whatever a YAML
// library makes of them; and each refusal says why. What it does not do: ranges (schema.hpp) or
// positions. Thread rule: free functions, safe on any thread.
#pragma once

#include "runtime/base/status.hpp"
#include "runtime/config/config.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace headrace::config {

// Decimal digits with an optional minus; no leading zero. kConfig says what is wrong with `text`.
[[nodiscard]] Result<std::int64_t> parse_integer(std::string_view text);

// JSON's number grammar, and also `.5` and `1.`; finite in fp64.
[[nodiscard]] Result<double> parse_number(std::string_view text);

// Exactly `true` or `false`.
[[nodiscard]] Result<bool> parse_boolean(std::string_view text);

// `block` or `block*3`; the position is left 0.
[[nodiscard]] Result<LayerRun> parse_layer_run(std::string_view text);

// `STAGE:STEP`, such as `1:5`.
[[nodiscard]] Result<FaultPoint> parse_fault_point(std::string_view text);

// The shortest text that reads back as the same double, always with a point: `0.001`, `1.0e-08`.
[[nodiscard]] std::string format_number(double value);

// A YAML double-quoted text that reads back as `text`.
[[nodiscard]] std::string quote_text(std::string_view text);

}  // namespace headrace::config
