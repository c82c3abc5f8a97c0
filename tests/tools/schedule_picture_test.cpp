// The SVG and the page of `schedule show`: every box where it starts, every wait where it is.
#include "tests/tools/headrace_process.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace {

using headrace::tests::contains;
using headrace::tests::Outcome;
using headrace::tests::run_headrace;
using headrace::tests::RunFolder;
using Json = nlohmann::ordered_json;

struct Drawn {
  std::string action;  // empty: a wait
  int rank = 0;
  double start = 0, end = 0;  // in the tooltip
  double x = 0, width = 0;    // in pixels
  double height = 0;
};

std::vector<Drawn> boxes_in(const std::string& svg) {
  static const std::regex kBox(
      R"x(<title>(?:([^,<]+), rank (\d+)|rank (\d+) waits [\d.e+-]+), ([\d.e+-]+) to )x"
      R"x(([\d.e+-]+)(?: \(a pair\))?</title><rect class="\w+" x="([\d.]+)" y="[\d.]+" )x"
      R"x(width="([\d.]+)" height="([\d.]+)"/>)x");
  std::vector<Drawn> boxes;
  for (std::sregex_iterator i(svg.begin(), svg.end(), kBox), end; i != end; ++i) {
    const std::smatch& found = *i;
    boxes.push_back({found[1], std::stoi(found[1].matched ? found[2] : found[3]),
                     std::stod(found[4]), std::stod(found[5]), std::stod(found[6]),
                     std::stod(found[7]), std::stod(found[8])});
  }
  return boxes;
}

std::string drawn_svg(const RunFolder& folder, std::vector<std::string> rest) {
  std::vector<std::string> arguments{"schedule", "show"};
  arguments.insert(arguments.end(), rest.begin(), rest.end());
  arguments.insert(arguments.end(), {"--svg", "drawn.svg"});
  const Outcome outcome = run_headrace(folder, arguments);
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  CHECK(outcome.out.empty());
  return folder.read("drawn.svg");
}

bool is_well_formed(const RunFolder& folder, const std::string& name) {
  const std::string command =
      "python3 -c \"import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])\" '" +
      folder.path() + "/" + name + "'";
  return std::system(command.c_str()) == 0;
}

// Starts of F and B in 1F1B at F = 1, B = 2, worked out rank by rank from the rule in the papers:
// min(M, P - 1 - r) forwards, then F and B in turn, then what is left.
std::map<std::string, double> starts_of_1f1b(int ranks, int microbatches) {
  struct Step {
    bool forward;
    int microbatch;
  };
  std::vector<std::vector<Step>> lists(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const int warm_up = std::min(microbatches, ranks - 1 - r);
    auto& list = lists[static_cast<std::size_t>(r)];
    for (int m = 0; m < warm_up; ++m) list.push_back({true, m});
    for (int m = warm_up; m < microbatches; ++m) {
      list.push_back({true, m});
      list.push_back({false, m - warm_up});
    }
    for (int m = microbatches - warm_up; m < microbatches; ++m) list.push_back({false, m});
  }
  std::map<std::string, double> starts;
  std::map<std::string, double> ends;
  std::vector<std::size_t> next(lists.size(), 0);
  std::vector<double> free_at(lists.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int r = 0; r < ranks; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      while (next[rank] < lists[rank].size()) {
        const Step step = lists[rank][next[rank]];
        const int source = step.forward ? r - 1 : r + 1;
        const auto text = [&](int stage) {
          return std::to_string(stage) + (step.forward ? "F" : "B") +
                 std::to_string(step.microbatch);
        };
        double ready = 0;
        if (source >= 0 && source < ranks) {
          if (ends.count(text(source)) == 0) break;
          ready = ends[text(source)];
        }
        const double start = std::max(free_at[rank], ready);
        starts[text(r)] = start;
        ends[text(r)] = free_at[rank] = start + (step.forward ? 1 : 2);
        ++next[rank];
        moved = true;
      }
    }
  }
  return starts;
}

}  // namespace

TEST_CASE("tools: every box of the picture stands where the schedule starts it") {
  const RunFolder folder;
  for (const auto& [ranks, microbatches] : {std::pair{4, 8}, {8, 32}, {1, 1}}) {
    CAPTURE(ranks);
    const std::string svg = drawn_svg(folder, {"1f1b", "--ranks", std::to_string(ranks),
                                               "--microbatches", std::to_string(microbatches)});
    CHECK(is_well_formed(folder, "drawn.svg"));
    const auto expected = starts_of_1f1b(ranks, microbatches);
    std::map<std::string, double> drawn;
    for (const Drawn& box : boxes_in(svg))
      if (!box.action.empty()) drawn[box.action] = box.start;
    CHECK(drawn == expected);
  }
}

TEST_CASE("tools: the idle share the picture prints is the one it draws") {
  const RunFolder folder;
  for (const auto& rest :
       std::vector<std::vector<std::string>>{{"1f1b", "--ranks", "4", "--microbatches", "8"},
                                             {"dualpipev", "--ranks", "4", "--microbatches", "10"},
                                             {"zbv", "--ranks", "4", "--microbatches", "10"}}) {
    CAPTURE(rest.front());
    const std::string svg = drawn_svg(folder, rest);
    CHECK(is_well_formed(folder, "drawn.svg"));
    const std::vector<Drawn> boxes = boxes_in(svg);
    double waiting = 0;
    double all = 0;
    double last = 0;
    for (const Drawn& box : boxes) {
      const bool is_pair_half = box.height < 20;  // two halves share a block
      const double pixels = box.width * (is_pair_half ? 0.5 : 1) + (box.action.empty() ? 0 : 1);
      if (box.action.empty()) waiting += pixels;
      all += is_pair_half && !box.action.empty() ? pixels - 0.5 : pixels;
      last = std::max(last, box.end);
    }
    const std::regex printed(R"(bubble ([\d.]+) % global)");
    std::smatch share;
    REQUIRE(std::regex_search(svg, share, printed));
    CHECK(100 * waiting / all == doctest::Approx(std::stod(share[1])).epsilon(0.02));
    CHECK(contains(svg, "makespan " + std::to_string(static_cast<int>(last)) + ";"));
    CHECK(contains(svg, "% span"));
  }
}

TEST_CASE("tools: positions in the picture are the times to scale") {
  const RunFolder folder;
  const std::string svg =
      drawn_svg(folder, {"1f1b", "--ranks", "2", "--microbatches", "3", "--times", "F=1.25,B=2.5"});
  const std::vector<Drawn> boxes = boxes_in(svg);
  REQUIRE(boxes.size() > 6);
  double scale = 0;
  for (const Drawn& box : boxes)
    if (box.action == "0F0") scale = (box.width + 1) / 1.25;
  REQUIRE(scale > 0);
  for (const Drawn& box : boxes) {
    CAPTURE(box.action);
    const double inset = box.action.empty() ? 0 : 0.5;
    CHECK(box.x - inset == doctest::Approx(64 + box.start * scale).epsilon(0.001));
    CHECK(box.width + 2 * inset == doctest::Approx((box.end - box.start) * scale).epsilon(0.001));
  }
}

TEST_CASE("tools: the picture names its kinds and outlines the critical path on request") {
  const RunFolder folder;
  const std::vector<std::string> rest{"zb_h1", "--ranks", "4", "--microbatches", "8"};
  const std::string plain = drawn_svg(folder, rest);
  for (const char* words : {"F forward", "I input gradient", "W weight gradient", "wait",
                            "number: microbatch", ">rank 3<", ">time<"}) {
    CAPTURE(words);
    CHECK(contains(plain, words));
  }
  CHECK_FALSE(contains(plain, "communication"));
  CHECK_FALSE(contains(plain, "class=\"path\""));
  auto outlined = rest;
  outlined.emplace_back("--critical-path");
  CHECK(contains(drawn_svg(folder, outlined), "class=\"path\""));
}

TEST_CASE("tools: the page holds picture and tooltips and fetches nothing") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, {"schedule", "show", "zbv", "--ranks", "2",
                                                "--microbatches", "4", "--html", "page.html"});
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  const std::string page = folder.read("page.html");
  CHECK(contains(page, "<svg "));
  CHECK(contains(page, "<title>3F0, rank 0, "));
  CHECK_FALSE(contains(page, "src="));
  CHECK_FALSE(contains(page, "@import"));
  std::string rest = page;
  const std::string name_space = "http://www.w3.org/2000/svg";
  rest.erase(rest.find(name_space), name_space.size());
  CHECK_FALSE(contains(rest, "http"));
}

TEST_CASE("tools: a file name with marks of XML makes no broken picture") {
  const RunFolder folder;
  folder.write("a<b&c.csv", "0F0,0B0\n");
  CHECK(contains(drawn_svg(folder, {"a<b&c.csv"}), "a&lt;b&amp;c.csv"));
  CHECK(is_well_formed(folder, "drawn.svg"));
}

TEST_CASE("tools: a picture nobody could open is refused with the numbers") {
  const RunFolder folder;
  const Outcome outcome = run_headrace(folder, {"schedule", "show", "gpipe", "--ranks", "256",
                                                "--microbatches", "512", "--svg", "huge.svg"});
  CHECK(outcome.exit_code == 2);
  CHECK(contains(outcome.err, "a picture of 262144 boxes"));
  CHECK_FALSE(folder.holds("huge.svg"));
}
