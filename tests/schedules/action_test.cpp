#include "schedules/action.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace headrace::schedules {
namespace {

TEST_CASE("action: every kind prints the documented text and parses back to itself") {
  const std::vector<std::string> texts{
      "2F0",      "2B0",          "1I3",        "0W3",        "1SEND_F3", "1RECV_F3", "1SEND_B3",
      "0RECV_B3", "0REDUCE_GRAD", "0TIED_SEND", "3TIED_RECV", "NORM",     "COMMIT",   "OPTIMIZER"};
  REQUIRE(texts.size() == static_cast<std::size_t>(ActionKind::kOptimizer) + 1);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CAPTURE(texts[i]);
    const Result<Action> action = parse_action(texts[i]);
    REQUIRE(action.is_ok());
    CHECK(action->kind == static_cast<ActionKind>(i));
    CHECK(to_string(*action) == texts[i]);
  }
}

TEST_CASE("action: printing and parsing are inverse for all kinds and number sizes") {
  for (int kind = 0; kind <= static_cast<int>(ActionKind::kOptimizer); ++kind)
    for (std::int32_t stage : {0, 1, 9, 10, 4095, 2147483647})
      for (std::int32_t microbatch : {0, 7, 10, 99, 2147483647}) {
        Action action{static_cast<ActionKind>(kind), StageIndex{stage},
                      MicrobatchIndex{microbatch}};
        if (is_step_end(action.kind)) action.microbatch = MicrobatchIndex{0};
        if (action.kind >= ActionKind::kNorm) action.stage = StageIndex{0};
        const Result<Action> back = parse_action(to_string(action));
        REQUIRE(back.is_ok());
        CHECK(*back == action);
      }
}

TEST_CASE("action: malformed texts are refused with the text and an example") {
  const std::vector<std::string> texts{"",
                                       " ",
                                       "F",
                                       "F0",
                                       "2F",
                                       "2",
                                       "22",
                                       "2f0",
                                       "2F 0",
                                       " 2F0",
                                       "2F0 ",
                                       "02F0",
                                       "2F00",
                                       "-2F0",
                                       "2F-1",
                                       "+2F0",
                                       "2X0",
                                       "2FF0",
                                       "2SEND0",
                                       "2SEND_F",
                                       "SEND_F0",
                                       "2SEND_f0",
                                       "2SENDF0",
                                       "2F0,",
                                       "0NORM",
                                       "NORM0",
                                       "0COMMIT",
                                       "OPTIMIZER1",
                                       "REDUCE_GRAD",
                                       "0REDUCE_GRAD0",
                                       "0TIED_SEND1",
                                       "2F2147483648",
                                       "2147483648F0",
                                       "99999999999999999999F0",
                                       "2F0F0",
                                       "0x2F0",
                                       "2F0\n",
                                       "(0F1;1B0)OVERLAP_F_B",
                                       "2F\xc3\xa9"};
  for (const std::string& text : texts) {
    CAPTURE(text);
    const Result<Action> action = parse_action(text);
    REQUIRE_FALSE(action.is_ok());
    CHECK(action.status().code() == StatusCode::kConfig);
    CHECK(action.status().message().find("is no action") != std::string::npos);
    CHECK(action.status().message().find("1SEND_F3") != std::string::npos);
  }
}

TEST_CASE("action: a long or unprintable text is shown short and clean") {
  const Result<Action> action = parse_action(std::string(100'000, '\x01'));
  REQUIRE_FALSE(action.is_ok());
  CHECK(action.status().message().size() < 400);
  CHECK(action.status().message().find('\x01') == std::string::npos);
}

}  // namespace
}  // namespace headrace::schedules
