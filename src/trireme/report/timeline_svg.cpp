#include "trireme/report/timeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/report/utf8.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kWidth = 1280.0;
constexpr double kMargin = 16.0;
constexpr double kLaneHeight = 24.0;
constexpr double kLaneGap = 3.0;
constexpr double kRankGap = 9.0;
constexpr double kTitleHeight = 32.0;
constexpr double kPanelGap = 14.0;
constexpr double kLegendHeight = 26.0;
constexpr double kAxisHeight = 38.0;
constexpr double kMilliseconds = 1e3;

/// Light fills on which dark text can be read, told apart also with red-green blindness. Categories
/// beyond them start over.
constexpr std::array<std::string_view, 10> kFills = {"#8ab8e6", "#f6b26b", "#7fc8a9", "#d5a6e0",
                                                     "#f2e27a", "#e99a9a", "#a7b4c2", "#8fd8de",
                                                     "#c9b18f", "#bcd977"};

constexpr std::string_view kStyle =
    "text{font:12px 'DejaVu Sans',Verdana,Helvetica,Arial,sans-serif;fill:#1f2933}"
    ".title{font-size:14px;font-weight:bold}.quiet{fill:#52606d}.end{text-anchor:end}"
    ".mid{text-anchor:middle}.lane{fill:#f1f4f7}.grid{stroke:#d9e0e7}"
    ".event{stroke:#ffffff;stroke-width:0.5}.tick{stroke:#52606d}.makespan{stroke:#52606d;stroke-"
    "dasharray:4 3}";

std::string xml_text(std::string_view text) {
  std::string escaped;
  while (!text.empty()) {
    const std::size_t num_bytes = utf8_sequence_bytes(text);
    const char c = text.front();
    // XML 1.0 has no control characters, not even escaped ones.
    const bool is_no_character = num_bytes == 0 || (num_bytes == 1 && (c & 0x60) == 0);
    escaped += is_no_character ? "\uFFFD"
               : c == '&'      ? "&amp;"
               : c == '<'      ? "&lt;"
               : c == '>'      ? "&gt;"
                               : std::string(text.substr(0, num_bytes));
    text.remove_prefix(std::max<std::size_t>(num_bytes, 1));
  }
  return escaped;
}

/// Advance of a character in DejaVu Sans at 12 px, rounded up by class; other common sans-serif
/// fonts are narrower.
double letter_width(char c) {
  constexpr double kWide = 12.0, kCapital = 9.4, kUsual = 7.7;
  const bool is_wide = std::string_view("mwMW@%").find(c) != std::string_view::npos;
  return is_wide ? kWide : c >= 'A' && c <= 'Z' ? kCapital : kUsual;
}

double text_width(std::string_view text) {
  double width = 0.0;
  for (const char c : text) {
    width += letter_width(c);
  }
  return width;
}

using Lane = std::pair<int, int>;  // rank, stream

std::vector<Lane> lanes_of(const Timeline& timeline) {
  std::set<Lane> lanes;
  for (const TraceEvent& event : timeline.events) {
    lanes.insert({event.rank, event.stream});
  }
  return {lanes.begin(), lanes.end()};
}

/// In the order in which they first appear.
std::vector<std::string> categories_of(std::span<const Timeline> timelines) {
  std::vector<std::string> categories;
  for (const Timeline& timeline : timelines) {
    for (const TraceEvent& event : timeline.events) {
      if (std::find(categories.begin(), categories.end(), event.category) == categories.end()) {
        categories.push_back(event.category);
      }
    }
  }
  return categories;
}

/// 1, 2 or 5 times a power of ten, so that about `num_ticks` of them make up `length`.
double tick_step(double length, double num_ticks) {
  const double rough = length / num_ticks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      return factor * power;
    }
  }
  return 10.0 * power;
}

/// The picture as it grows downwards.
class Picture {
 public:
  Picture(std::span<const Timeline> timelines, std::span<const std::string> first_categories)
      : categories_(categories_of(timelines)),
        colours_(first_categories.begin(), first_categories.end()) {
    for (const std::string& category : categories_) {
      if (std::find(colours_.begin(), colours_.end(), category) == colours_.end()) {
        colours_.push_back(category);
      }
    }
    double end = 0.0;
    for (const Timeline& timeline : timelines) {
      end = std::max(end, end_seconds(timeline));
      for (const auto& [rank, stream] : lanes_of(timeline)) {
        stream_width_ = std::max(stream_width_, text_width(stream_name(timeline, stream)));
        rank_width_ = std::max(rank_width_, text_width(fmt::format("rank {}", rank)));
      }
    }
    end_ms_ = end > 0.0 ? end * kMilliseconds : 1.0;
    tick_ms_ = tick_step(end_ms_, 10.0);
    left_ = kMargin + rank_width_ + 12.0 + stream_width_ + 10.0;
  }

  void add_legend() {
    double x = kMargin;
    y_ += kMargin;
    for (std::size_t i = 0; i < categories_.size(); ++i) {
      const double width = 20.0 + text_width(categories_[i]) + 16.0;
      if (x > kMargin && x + width > kWidth - kMargin) {
        x = kMargin;
        y_ += kLegendHeight;
      }
      body_ +=
          fmt::format(R"(<rect x="{:.2f}" y="{:.2f}" width="14" height="14" rx="2" fill="{}"/>)", x,
                      y_, fill_of(categories_[i]));
      add_text("", x + 20.0, y_ + 11.5, categories_[i]);
      x += width;
    }
    y_ += categories_.empty() ? 0.0 : kLegendHeight;
  }

  void add_timeline(const Timeline& timeline) {
    const double end_ms = end_seconds(timeline) * kMilliseconds;
    add_text(
        "title", kMargin, y_ + 20.0,
        fmt::format("{}{}{:.4g} ms", timeline.title, timeline.title.empty() ? "" : ": ", end_ms));
    y_ += kTitleHeight;
    const double first_lane_y = y_;
    const std::vector<Lane> lanes = lanes_of(timeline);
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const bool is_new_rank = i == 0 || lanes[i].first != lanes[i - 1].first;
      y_ += i > 0 && is_new_rank ? kRankGap : 0.0;
      add_lane(timeline, lanes[i], is_new_rank);
    }
    for (const double ms : ticks()) {
      grid_ += line("grid", x_of(ms), first_lane_y, y_);
    }
    body_ += line("makespan", x_of(end_ms), first_lane_y - 4.0, y_);
    y_ += kPanelGap;
  }

  /// The axis below all timelines.
  void add_axis() {
    const int decimals = std::max(0, -static_cast<int>(std::floor(std::log10(tick_ms_) + 1e-9)));
    for (const double ms : ticks()) {
      body_ += line("tick", x_of(ms), y_ - kPanelGap, y_ - kPanelGap + 6.0);
      add_text("quiet mid", x_of(ms), y_ + 8.0, fmt::format("{:.{}f}", ms, decimals));
    }
    add_text("quiet mid", (left_ + kWidth - kMargin) / 2.0, y_ + 26.0, "time (ms)");
    y_ += kAxisHeight;
  }

  [[nodiscard]] std::string svg() const {
    return fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" width="{0:.0f}" height="{1:.0f}" )"
        R"(viewBox="0 0 {0:.0f} {1:.0f}"><style>{2}</style>)"
        R"(<rect width="100%" height="100%" fill="#ffffff"/>{3}{4}</svg>)"
        "\n",
        kWidth, std::ceil(y_), kStyle, grid_, body_);
  }

 private:
  [[nodiscard]] double x_of(double ms) const {
    return left_ + ms / end_ms_ * (kWidth - 2.0 * kMargin - left_);
  }

  [[nodiscard]] std::string_view fill_of(const std::string& category) const {
    const auto at = std::find(colours_.begin(), colours_.end(), category);
    return kFills.at(static_cast<std::size_t>(at - colours_.begin()) % kFills.size());
  }

  void add_text(std::string_view style, double x, double y, std::string_view text) {
    body_ += fmt::format("<text class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\">{}</text>\n", style, x, y,
                         xml_text(text));
  }

  static std::string line(std::string_view style, double x, double y1, double y2) {
    return fmt::format(
        "<line class=\"{}\" x1=\"{:.2f}\" y1=\"{:.2f}\" x2=\"{:.2f}\" y2=\"{:.2f}\"/>\n", style, x,
        y1, x, y2);
  }

  /// Times of the ticks of the axis, in ms.
  [[nodiscard]] std::vector<double> ticks() const {
    constexpr double kRounding = 1e-9;
    std::vector<double> all;
    for (int i = 0; i * tick_ms_ <= end_ms_ * (1.0 + kRounding); ++i) {
      all.push_back(i * tick_ms_);
    }
    return all;
  }

  void add_lane(const Timeline& timeline, const Lane& lane, bool shows_rank) {
    const double text_y = y_ + kLaneHeight / 2.0 + 4.5;
    if (shows_rank) {
      add_text("", kMargin, text_y, fmt::format("rank {}", lane.first));
    }
    add_text("quiet end", left_ - 10.0, text_y, stream_name(timeline, lane.second));
    body_ += fmt::format(
        "<rect class=\"lane\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>\n",
        left_, y_, x_of(end_ms_) - left_, kLaneHeight);
    for (const TraceEvent& event : timeline.events) {
      if (Lane(event.rank, event.stream) == lane) {
        add_event(event);
      }
    }
    y_ += kLaneHeight + kLaneGap;
  }

  void add_event(const TraceEvent& event) {
    constexpr double kLeastWidth = 0.6;  // below it an event would vanish
    const double start_ms = event.start_seconds * kMilliseconds;
    const double end_ms = start_ms + event.duration_seconds * kMilliseconds;
    const double x = x_of(start_ms);
    const double width = std::max(x_of(end_ms) - x, kLeastWidth);
    body_ += fmt::format(
        "<rect class=\"event\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill=\"{}\"><title>{} ({}): {:.4f} to {:.4f} ms</title></rect>\n",
        x, y_, width, kLaneHeight, fill_of(event.category), xml_text(event.name),
        xml_text(event.category), start_ms, end_ms);
    if (text_width(event.name) + 3.0 <= width) {
      add_text("mid", x + width / 2.0, y_ + kLaneHeight / 2.0 + 4.5, event.name);
    }
  }

  std::vector<std::string> categories_;  ///< that appear, in the order of the legend
  std::vector<std::string> colours_;     ///< categories in the order of kFills
  double stream_width_ = 0.0;
  double rank_width_ = 0.0;
  double end_ms_ = 1.0;  ///< of the axis
  double tick_ms_ = 1.0;
  double left_ = 0.0;  ///< x of time 0
  double y_ = 0.0;     ///< where the next thing goes
  std::string grid_;
  std::string body_;
};

}  // namespace

std::string timeline_svg(std::span<const Timeline> timelines,
                         std::span<const std::string> categories) {
  Picture picture(timelines, categories);
  picture.add_legend();
  for (const Timeline& timeline : timelines) {
    picture.add_timeline(timeline);
  }
  picture.add_axis();
  return picture.svg();
}

}  // namespace trireme
