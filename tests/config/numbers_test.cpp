#include "runtime/config/scalars.hpp"
#include "tests/config/sample.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace headrace;
using namespace headrace::config;
using namespace headrace::config::testing;

namespace {

std::string with_rate(const std::string& rate) {
  return changed("learning_rate: 0.001", "learning_rate: " + rate);
}

}  // namespace

TEST_CASE("config: C80 four spellings of 1e-4 are one number") {
  for (const char* rate : {"1e-4", "1E-4", "1.0e-4", ".0001", "0.0001", "10e-5"}) {
    CAPTURE(rate);
    const Result<Config> config = parse(with_rate(rate));
    REQUIRE_MESSAGE(config.is_ok(), config.status().message());
    CHECK(config->optimizer.learning_rate == 0.0001);
  }
}

TEST_CASE("config: C80 texts that look like numbers are refused with place and reason") {
  struct Case {
    const char* text;
    const char* reason;
  };
  for (const Case& c : {Case{"\"1e-4\"", "in quotes is a text"},
                        Case{"'1e-4'", "in quotes is a text"},
                        Case{"1e-4x", "has 'x' after the number"},
                        Case{"1,000", "has a comma"},
                        Case{"1_000", "has an underscore"},
                        Case{"0x10", "is not decimal"},
                        Case{"0o17", "is not decimal"},
                        Case{"010", "has a leading zero"},
                        Case{"08", "has a leading zero"},
                        Case{"-01", "has a leading zero"},
                        Case{"00.5", "has a leading zero"},
                        Case{".inf", "is not a finite number"},
                        Case{"-.inf", "is not a finite number"},
                        Case{"inf", "is not a finite number"},
                        Case{".nan", "is not a number"},
                        Case{"nan", "is not a number"},
                        Case{"NaN", "is not a number"},
                        Case{"-1", "is out of range"},
                        Case{"1e400", "outside what fp64 can hold"},
                        Case{"1e-400", "outside what fp64 can hold"},
                        Case{"+1", "has a plus sign"},
                        Case{"1e", "has 'e' after the number"},
                        Case{".", "is not a number"},
                        Case{"-", "is not a number"},
                        Case{"1.2.3", "has '.3' after the number"},
                        Case{"1 000", "has ' 000' after the number"},
                        Case{"true", "is not a number"},
                        Case{"[1]", "expected a number, found a list"},
                        Case{"{a: 1}", "expected a number, found a map"},
                        Case{"null", "null is not allowed"},
                        Case{"~", "null is not allowed"}}) {
    CAPTURE(c.text);
    const std::string message = refusal(with_rate(c.text));
    if (std::string_view(c.text) == "-") {
      CHECK_FALSE(message.empty());  // a lone dash is a list to YAML
      continue;
    }
    CHECK_MESSAGE(contains(message, c.reason), message);
    CHECK_MESSAGE(message.starts_with("run.yaml:15:18: optimizer.learning_rate: "), message);
  }
}

TEST_CASE("config: C80 integers take decimal digits only") {
  for (const char* steps : {"010", "08", "1e3", "10.0", "1_0", "0x10", "\"10\"", "ten", "10x",
                            "9223372036854775808", "-1", "0", "+5", ".inf", "1,000"}) {
    CAPTURE(steps);
    const std::string message = refusal(changed("steps: 10", std::string("steps: ") + steps));
    CHECK_MESSAGE(message.starts_with("run.yaml:17:10: run.steps: "), message);
  }
  const Result<Config> config = parse(changed("steps: 10", "steps: 1000000000000"));
  REQUIRE(config.is_ok());
  CHECK(config->run.steps == 1000000000000);
}

TEST_CASE("config: a comma inside braces is a key without a value") {
  const std::string message =
      refusal(changed("optimizer:\n  learning_rate: 0.001", "optimizer: {learning_rate: 1,000}"));
  CHECK_MESSAGE(contains(message, "optimizer.000: unknown key"), message);
}

TEST_CASE("config: booleans are true or false and nothing else") {
  for (const char* word : {"yes", "no", "on", "off", "True", "FALSE", "1", "0", "y", "\"true\""}) {
    CAPTURE(word);
    const std::string message =
        refusal(changed("  context: 16", std::string("  context: 16\n  tied: ") + word));
    CHECK_MESSAGE(message.starts_with("run.yaml:7:9: model.tied: "), message);
  }
  for (const bool tied : {true, false}) {
    const Result<Config> config = parse(changed(
        "  context: 16", std::string("  context: 16\n  tied: ") + (tied ? "true" : "false")));
    REQUIRE(config.is_ok());
    CHECK(config->model.tied == tied);
  }
}

TEST_CASE("config: printed numbers read back as the same double") {
  for (const double value :
       {0.0, 0.1, 1.0, 1e-4, 3e-4, 1e300, 5e-324, 123456789.0, 1e22, 0.3,
        std::numeric_limits<double>::max(), std::numeric_limits<double>::min(), -2.5}) {
    const std::string text = format_number(value);
    CAPTURE(text);
    CHECK(contains(text, "."));
    const Result<double> back = parse_number(text);
    REQUIRE(back.is_ok());
    CHECK(*back == value);
  }
}

TEST_CASE("config: layer runs and fault points have one spelling") {
  CHECK(parse_layer_run("block")->count == 1);
  CHECK(parse_layer_run("block*3")->count == 3);
  CHECK(parse_layer_run("my_layer2*65536")->kind == "my_layer2");
  for (const char* text : {"block*0", "block*-1", "block*", "*3", "block*03", "block*65537",
                           "Block", "block * 3", "block*3*2", "", "2block", "block*1e1"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_layer_run(text).is_ok());
  }
  CHECK(*parse_fault_point("1:5") == FaultPoint{1, 5});
  for (const char* text : {"1", ":", "1:", ":5", "1:0", "-1:5", "1:5:6", "a:b", "01:5", ""}) {
    CAPTURE(text);
    CHECK_FALSE(parse_fault_point(text).is_ok());
  }
}
