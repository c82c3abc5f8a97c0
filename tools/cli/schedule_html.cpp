#include "tools/cli/schedule_picture.hpp"
#include "tools/cli/schedule_request.hpp"

namespace headrace::cli {
namespace {

constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Headrace schedule</title>
<style>
body { font: 14px Arial, Helvetica, "DejaVu Sans", sans-serif; color: #222; margin: 16px; }
.plot { overflow-x: auto; border: 1px solid #ddd; }
table { border-collapse: collapse; margin-top: 16px; }
td, th { padding: 3px 12px; text-align: right; border-bottom: 1px solid #eee; }
#tip { position: fixed; display: none; background: #222; color: #fff; padding: 4px 8px;
  border-radius: 3px; pointer-events: none; }
svg.one g[data-m] { opacity: .25; }
svg.one g[data-m].on { opacity: 1; }
</style>
</head>
<body>
<p>Point at a box for its action and times; its microbatch stands out on every rank.</p>
<div class="plot">
)";

// Titles become tooltips that show at once; without scripts the browser's own remain.
constexpr const char* kTail = R"(<div id="tip"></div>
<script>
const tip = document.getElementById("tip");
const svg = document.querySelector("svg");
svg.querySelector(":scope > title").remove();
for (const g of svg.querySelectorAll("g")) {
  const title = g.querySelector(":scope > title");
  if (!title) continue;
  g.dataset.text = title.textContent;
  title.remove();
  g.addEventListener("mousemove", (event) => {
    tip.textContent = g.dataset.text;
    tip.style.display = "block";
    tip.style.left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4) + "px";
    tip.style.top = event.clientY + 16 + "px";
  });
  g.addEventListener("mouseenter", () => {
    if (g.dataset.m === undefined) return;
    svg.classList.add("one");
    for (const same of svg.querySelectorAll(`g[data-m="${g.dataset.m}"]`)) same.classList.add("on");
  });
  g.addEventListener("mouseleave", () => {
    tip.style.display = "none";
    svg.classList.remove("one");
    for (const on of svg.querySelectorAll("g.on")) on.classList.remove("on");
  });
}
</script>
</body>
</html>
)";

std::string rank_table(const PictureInput& input) {
  const schedules::Simulation& simulation = input.simulation;
  std::string text =
      "<table>\n<tr><th>rank</th><th>busy</th><th>idle</th><th>idle share</th>"
      "<th>peak activations</th></tr>\n";
  for (std::size_t r = 0; r < simulation.busy.size(); ++r) {
    const double share = simulation.makespan > 0 ? simulation.idle[r] / simulation.makespan : 0;
    text += "<tr><td>" + std::to_string(r) + "</td><td>" + number_text(simulation.busy[r]) +
            "</td><td>" + number_text(simulation.idle[r]) + "</td><td>" + percent_text(share) +
            "</td><td>" + std::to_string(input.facts.peak_activations[r]) + "</td></tr>\n";
  }
  return text + "</table>\n";
}

}  // namespace

std::string schedule_html(const PictureInput& input) {
  return kHead + schedule_svg(input) + "</div>\n" + rank_table(input) + kTail;
}

}  // namespace headrace::cli
