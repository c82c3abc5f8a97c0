#include "tools/cli/schedule_boxes.hpp"
#include "tools/cli/schedule_picture.hpp"
#include "tools/cli/schedule_request.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <vector>

namespace headrace::cli {
namespace {

constexpr std::int64_t kBoxesMax = 200'000;
constexpr double kLeft = 64;    // rank labels
constexpr double kRight = 150;  // idle and peak
constexpr double kTop = 64;     // title and figures
constexpr double kFooter = 64;  // axis and legend
constexpr double kGap = 4;      // between rows
constexpr double kPlotMax = 12'000;
constexpr double kLabelSize = 11;
constexpr double kSmallSize = 8;
constexpr double kWidthPerSize = 0.62;  // of a digit, in common sans-serif fonts

struct KindStyle {
  char letter;
  const char* meaning;
  double hue, saturation;
};
constexpr std::array<KindStyle, 4> kKinds = {{
    {'F', "forward", 213, 75},
    {'B', "backward (I then W)", 135, 42},
    {'I', "input gradient", 172, 52},
    {'W', "weight gradient", 36, 88},
}};

std::string pixels(double value) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.2f", value);
  std::string text = buffer;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string attribute(const char* name, double value) {
  return std::string(" ") + name + "=\"" + pixels(value) + "\"";
}

double text_width(const std::string& text, double size) {
  return kWidthPerSize * size * static_cast<double>(text.size());
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= 0x20)
      result += c;
  }
  return result;
}

std::string text_at(double x, double y, const std::string& text, const char* css = nullptr) {
  return "<text" + (css != nullptr ? std::string(" class=\"") + css + "\"" : std::string()) +
         attribute("x", x) + attribute("y", y) + ">" + escaped(text) + "</text>";
}

std::string rect_at(double x, double y, double width, double height, const std::string& css) {
  return "<rect class=\"" + css + "\"" + attribute("x", x) + attribute("y", y) +
         attribute("width", width) + attribute("height", height) + "/>";
}

// A step of 1, 2 or 5 times a power of ten that keeps labels apart.
double tick_step(double pixels_per_unit) {
  const double least = 48 / pixels_per_unit;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

class SvgWriter {
 public:
  explicit SvgWriter(const PictureInput& input)
      : input_(input), program_(input.program), rows_(rows_of(input.simulation)) {
    collect();
    choose_scale();
  }

  std::string run() {
    const std::string legend = legend_text();
    const double width = std::max(kLeft + plot_width_ + kRight, legend_end_);
    const double height = kTop + rows_height() + kFooter;
    text_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + attribute("width", width) +
            attribute("height", height) + " viewBox=\"0 0 " + pixels(width) + " " + pixels(height) +
            "\" role=\"img\">\n<title>" + escaped(sizes_text(program_)) + "</title>\n";
    write_styles();
    text_ += "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n";
    write_head();
    write_axis();
    for (std::size_t r = 0; r < rows_.size(); ++r) write_row(r);
    if (input_.critical_path) write_critical_path();
    return text_ + legend + "</svg>\n";
  }

 private:
  void collect() {
    for (const auto& list : input_.simulation.timeline)
      for (const auto& simulated : list) {
        kinds_.insert(static_cast<std::size_t>(simulated.action.kind));
        tones_ = std::max(tones_, chunk_of(program_, simulated.action) + 1);
      }
  }

  // The shortest box holds the longest label, unless the plot would become endless.
  void choose_scale() {
    const double makespan = std::max(input_.simulation.makespan, 1e-300);
    double shortest = makespan;
    for (const BoxRow& row : rows_)
      for (const Box& box : row.boxes)
        if (box.end > box.start) shortest = std::min(shortest, box.end - box.start);
    const std::string longest = std::to_string(program_.microbatches - 1);
    const double wanted = std::max(16.0, text_width(longest, kLabelSize) + 4);
    const double plot = std::clamp(makespan / shortest * wanted, 320.0, kPlotMax);
    scale_ = plot / makespan;
    plot_width_ = plot;
    const double tall = program_.stages > program_.ranks ? 32 : 26;
    const double room = 4000 / static_cast<double>(std::max<std::size_t>(rows_.size(), 1));
    row_height_ = std::clamp(room - kGap, 6.0, tall);
  }

  [[nodiscard]] double rows_height() const {
    return static_cast<double>(rows_.size()) * (row_height_ + kGap);
  }
  [[nodiscard]] double x_of(double time) const { return kLeft + time * scale_; }
  [[nodiscard]] double y_of(std::size_t rank) const {
    return kTop + static_cast<double>(rank) * (row_height_ + kGap);
  }

  // Lightness falls with the chunk; odd microbatches are a shade darker than even ones.
  [[nodiscard]] double lightness(std::int32_t tone, bool odd) const {
    const double share =
        tones_ > 1 ? static_cast<double>(tone) / static_cast<double>(tones_ - 1) : 0;
    return 80 - 38 * share - (odd ? 6 : 0);
  }

  void write_styles() {
    text_ +=
        "<style>text{font:11px Arial,Helvetica,'DejaVu Sans',sans-serif;fill:#222}"
        "rect.page{fill:#fff}.name{font-size:15px;font-weight:bold}.box{text-anchor:middle}"
        ".dark{fill:#fff}.small{font-size:8px}.axis{fill:#555;text-anchor:middle}"
        ".rank{text-anchor:end}.line{stroke:#ddd}.wait{fill:#ececec}"
        ".path{fill:none;stroke:#d0021b;stroke-width:2}";
    for (const std::size_t kind : kinds_)
      for (std::int32_t tone = 0; tone < tones_; ++tone)
        for (const bool odd : {false, true}) {
          const KindStyle& style = kKinds[kind];
          char rule[96];
          std::snprintf(rule, sizeof rule, ".%s{fill:%s}", css_of(kind, tone, odd).c_str(),
                        hex_of(style, lightness(tone, odd)).c_str());
          text_ += rule;
        }
    text_ += "</style>\n";
  }

  static std::string css_of(std::size_t kind, std::int32_t tone, bool odd) {
    return std::string(1, kKinds[kind].letter) + std::to_string(tone) + (odd ? "o" : "e");
  }
  [[nodiscard]] std::string css_of(const schedules::Action& action) const {
    return css_of(static_cast<std::size_t>(action.kind), chunk_of(program_, action),
                  action.microbatch.value % 2 == 1);
  }

  // SVG readers disagree about hsl(), so it is worked out here.
  static std::string hex_of(const KindStyle& style, double lightness) {
    const double l = lightness / 100;
    const double a = style.saturation / 100 * std::min(l, 1 - l);
    const auto channel = [&](double n) {
      const double k = std::fmod(n + style.hue / 30, 12);
      return static_cast<int>(
          std::lround(255 * (l - a * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})))));
    };
    char text[8];
    std::snprintf(text, sizeof text, "#%02x%02x%02x", channel(0), channel(8), channel(4));
    return text;
  }

  void write_head() {
    const schedules::Simulation& simulation = input_.simulation;
    text_ += text_at(12, 24, sizes_text(program_), "name") + "\n" +
             text_at(12, 44,
                     "makespan " + number_text(simulation.makespan) + "; bubble " +
                         percent_text(simulation.bubble_global) + " global, " +
                         percent_text(simulation.bubble_span) + " span; " + input_.durations) +
             "\n";
  }

  void write_axis() {
    const double bottom = kTop + rows_height();
    const double step = tick_step(scale_);
    for (std::int64_t i = 0;; ++i) {
      const double time = static_cast<double>(i) * step;
      if (time > input_.simulation.makespan * (1 + 1e-9)) break;
      text_ += "<path class=\"line\" d=\"M" + pixels(x_of(time)) + " " + pixels(kTop - 4) + "V" +
               pixels(bottom) + "\"/>" +
               text_at(x_of(time), bottom + 12, number_text(time), "axis");
    }
    text_ += text_at(kLeft - 8, bottom + 12, "time", "rank") + "\n";
  }

  void write_row(std::size_t r) {
    const bool has_text = row_height_ >= kSmallSize;
    text_ += "<g transform=\"translate(0," + pixels(y_of(r)) + ")\">";
    const double middle = row_height_ / 2 + 4;
    if (has_text) text_ += text_at(kLeft - 8, middle, "rank " + std::to_string(r), "rank");
    for (const Wait& wait : rows_[r].waits) {
      text_ += "<g><title>rank " + std::to_string(r) + " waits " +
               number_text(wait.end - wait.start) + ", " + number_text(wait.start) + " to " +
               number_text(wait.end) + "</title>" +
               rect_at(x_of(wait.start), 0, (wait.end - wait.start) * scale_, row_height_, "wait") +
               "</g>";
    }
    for (const Box& box : rows_[r].boxes) write_box(r, box);
    if (has_text) {
      const double share = input_.simulation.makespan > 0
                               ? input_.simulation.idle[r] / input_.simulation.makespan
                               : 0;
      text_ += text_at(x_of(input_.simulation.makespan) + 8, middle,
                       "idle " + percent_text(share) + ", peak " +
                           std::to_string(input_.facts.peak_activations[r]));
    }
    text_ += "</g>\n";
  }

  void write_box(std::size_t rank, const Box& box) {
    if (box.end <= box.start) return;
    if (!box.partner) return write_part(rank, box, box.action, 0, row_height_);
    write_part(rank, box, box.action, 0, row_height_ / 2);
    write_part(rank, box, *box.partner, row_height_ / 2, row_height_ / 2);
  }

  void write_part(std::size_t rank, const Box& box, const schedules::Action& action, double y,
                  double height) {
    const double x = x_of(box.start);
    const double width = (box.end - box.start) * scale_;
    const double inset = std::min(0.5, width / 8);
    std::string title = schedules::to_string(action) + ", rank " + std::to_string(rank) + ", " +
                        number_text(box.start) + " to " + number_text(box.end);
    if (box.partner) title += " (a pair)";
    text_ += "<g data-m=\"" + std::to_string(action.microbatch.value) + "\"><title>" + title +
             "</title>" +
             rect_at(x + inset, y, width - 2 * inset, height - (y > 0 || !box.partner ? 0 : 1),
                     css_of(action));
    write_label(action, x + width / 2, y, width - 2, height);
    text_ += "</g>";
  }

  // The microbatch; below or beside it the stage, where a rank has several.
  void write_label(const schedules::Action& action, double x, double y, double width,
                   double height) {
    const bool odd = action.microbatch.value % 2 == 1;
    const bool is_dark = lightness(chunk_of(program_, action), odd) < 58;
    const std::string css = is_dark ? "box dark" : "box";
    const std::string microbatch = std::to_string(action.microbatch.value);
    const std::string stage = "s" + std::to_string(action.stage.value);
    if (text_width(microbatch, kLabelSize) > width || height < kLabelSize) return;
    const bool shows_stage = tones_ > 1;
    const std::string beside = microbatch + " " + stage;
    if (shows_stage && height >= 24 && text_width(stage, kSmallSize) <= width) {
      text_ += text_at(x, y + height / 2 - 1, microbatch, css.c_str()) +
               text_at(x, y + height - 5, stage, (css + " small").c_str());
    } else {
      const bool fits = shows_stage && text_width(beside, kLabelSize) <= width;
      text_ += text_at(x, y + height / 2 + 4, fits ? beside : microbatch, css.c_str());
    }
  }

  // An outline around each of its actions, and a line where it goes to another rank.
  void write_critical_path() {
    const schedules::CriticalStep* before = nullptr;
    for (const schedules::CriticalStep& step : input_.simulation.critical_path) {
      const double y = y_of(step.rank.index());
      if (before != nullptr && before->rank != step.rank)
        text_ += "<path class=\"path\" d=\"M" + pixels(x_of(before->end)) + " " +
                 pixels(y_of(before->rank.index()) + row_height_ / 2) + "L" +
                 pixels(x_of(step.start)) + " " + pixels(y + row_height_ / 2) + "\"/>";
      text_ +=
          rect_at(x_of(step.start) + 1, y + 1, std::max(0.0, (step.end - step.start) * scale_ - 2),
                  row_height_ - 2, "path");
      before = &step;
    }
    text_ += "\n";
  }

  // Also says where it ends: a short schedule is narrower than its legend.
  std::string legend_text() {
    const double y = kTop + rows_height() + 30;
    double x = kLeft;
    std::string legend;
    const auto entry = [&](const std::string& css, const std::string& text) {
      legend += rect_at(x, y, 14, 14, css) + text_at(x + 19, y + 11, text);
      x += 19 + text_width(text, kLabelSize) * 0.88 + 18;
    };
    for (const std::size_t kind : kinds_)
      entry(css_of(kind, 0, false),
            std::string(1, kKinds[kind].letter) + " " + kKinds[kind].meaning);
    entry("wait", "wait");
    if (input_.critical_path) entry("path", "critical path");
    const bool has_replicas = program_.placement == schedules::Placement::kBidirectional;
    for (std::int32_t tone = 0; tones_ > 1 && tone < tones_; ++tone) {
      if (tones_ > 4 && tone > 0 && tone + 1 < tones_) continue;  // the first and the last will do
      const std::string name = has_replicas ? "replica " : "chunk ";
      entry(css_of(*kinds_.begin(), tone, false), name + std::to_string(tone));
    }
    const std::string numbers = tones_ > 1 ? "number: microbatch, s: stage" : "number: microbatch";
    legend_end_ = x + text_width(numbers, kLabelSize) + 12;
    return legend + text_at(x, y + 11, numbers) + "\n";
  }

  const PictureInput& input_;
  const schedules::Program& program_;
  const std::vector<BoxRow> rows_;
  std::set<std::size_t> kinds_;
  std::int32_t tones_ = 1;
  double scale_ = 1;  // pixels per unit of time
  double plot_width_ = 0;
  double row_height_ = 0;
  double legend_end_ = 0;
  std::string text_;
};

}  // namespace

Status check_picture(const PictureInput& input) {
  std::int64_t boxes = 0;
  for (const auto& list : input.simulation.timeline)
    boxes += static_cast<std::int64_t>(list.size());
  if (boxes <= kBoxesMax) return Status::ok();
  return {StatusCode::kUsage,
          "a picture of " + std::to_string(boxes) + " boxes is more than a viewer shows; at most " +
              std::to_string(kBoxesMax) + " are drawn: lower --ranks, --microbatches or --chunks"};
}

std::string schedule_svg(const PictureInput& input) { return SvgWriter(input).run(); }

}  // namespace headrace::cli
