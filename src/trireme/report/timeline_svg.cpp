#include "trireme/report/timeline_svg.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/report/svg.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kWidth = kPictureWidth;
constexpr double kMargin = kPictureMargin;
constexpr double kLaneHeight = 24.0;
constexpr double kLaneGap = 3.0;
constexpr double kRankGap = 9.0;
constexpr double kTitleHeight = 32.0;
constexpr double kPanelGap = 14.0;
constexpr double kAxisHeight = 38.0;
constexpr double kMilliseconds = 1e3;

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
    const auto place = [&](const std::string& category) {
      return std::find(colours_.begin(), colours_.end(), category);
    };
    std::sort(categories_.begin(), categories_.end(),
              [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
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
    left_ = std::max(kTimeLeft, kMargin + rank_width_ + 12.0 + stream_width_ + 10.0);
  }

  void add_legend() {
    std::vector<LegendItem> items;
    for (const std::string& category : categories_) items.push_back({category, fill_of(category)});
    y_ += kMargin;
    const Legend legend = svg_legend(items, y_);
    body_ += legend.body;
    y_ += legend.height;
  }

  void add_timeline(const Timeline& timeline) {
    const double end_ms = end_seconds(timeline) * kMilliseconds;
    constexpr double kLargerAndBold = 1.3,
                     kEndWidth = 100.0;  // of a title against 12 px; of "9 ms"
    const std::string title =
        fitting_text(timeline.title, (kWidth - 2 * kMargin - kEndWidth) / kLargerAndBold);
    add_text("title", kMargin, y_ + 20.0,
             fmt::format("{}{}{} ms", title, title.empty() ? "" : ": ",
                         milliseconds_text(end_seconds(timeline))));
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
    for (const double ms : ticks()) {
      body_ += line("tick", x_of(ms), y_ - kPanelGap, y_ - kPanelGap + 6.0);
      add_text("quiet mid", x_of(ms), y_ + 8.0, tick_text(ms, tick_ms_));
    }
    add_text("quiet mid", (left_ + kWidth - kMargin) / 2.0, y_ + 26.0, "time (ms)");
    y_ += kAxisHeight;
  }

  [[nodiscard]] std::string svg() const { return svg_file(y_, grid_ + body_); }

 private:
  [[nodiscard]] double x_of(double ms) const { return left_ + ms / end_ms_ * (kTimeRight - left_); }

  [[nodiscard]] std::string_view fill_of(const std::string& category) const {
    const auto at = std::find(colours_.begin(), colours_.end(), category);
    return fill_colour(static_cast<std::size_t>(at - colours_.begin()));
  }

  void add_text(std::string_view style, double x, double y, std::string_view text) {
    body_ += svg_text(style, x, y, text);
  }

  static std::string line(std::string_view style, double x, double y1, double y2) {
    return svg_line(style, x, y1, x, y2);
  }

  /// Times of the ticks of the axis, in ms.
  [[nodiscard]] std::vector<double> ticks() const { return tick_values(tick_ms_, end_ms_); }

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
    constexpr double kLeastWidth = 0.6;          // below it an event would vanish
    constexpr double kLeastBorderedWidth = 3.0;  // below it the border would hide the event
    const double start_ms = event.start_seconds * kMilliseconds;
    const double end_ms = start_ms + event.duration_seconds * kMilliseconds;
    const double x = x_of(start_ms);
    const double width = std::max(x_of(end_ms) - x, kLeastWidth);
    body_ += fmt::format(
        "<rect class=\"event\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" "
        "fill=\"{}\"{}><title>{} ({}): {:.4f} to {:.4f} ms</title></rect>\n",
        x, y_, width, kLaneHeight, fill_of(event.category),
        width < kLeastBorderedWidth ? " style=\"stroke:none\"" : "", xml_text(event.name),
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
