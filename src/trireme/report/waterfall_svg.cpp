#include "trireme/report/waterfall_svg.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "trireme/report/svg.h"
#include "trireme/report/table.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kMargin = kPictureMargin;
constexpr double kLeastChange = 1e-9;  // of the step; less is rounding
constexpr double kRowHeight = 24.0;
constexpr double kRowGap = 6.0;
constexpr double kFirstRow = 46.0;
constexpr double kValueWidth = 170.0;
constexpr double kTextDown = 16.5;  // of a text in a row, from the row's top
constexpr std::string_view kSumColour = "#8793a1";

/// What a picture of changes shows of the axis of seconds, and where.
struct ChangeScale {
  double left = 0;  ///< pixels
  double begin = 0;
  double end = 0;

  explicit ChangeScale(const StepChange& change) {
    double at = change.from_seconds, least = at, most = at;
    double name_width = std::max(text_width(change.from_name), text_width(change.to_name));
    for (const auto& [name, seconds] : change.changes) {
      at += seconds;
      least = std::min(least, at);
      most = std::max(most, at);
      name_width = std::max(name_width, text_width(name));
    }
    constexpr double kLead = 0.4, kLeastSpan = 1e-6;  // shares: before the first value; of the step
    const double span = std::max(most - least, kLeastSpan * most);
    begin = std::max(0.0, least - kLead * span);
    end = most;
    left = kMargin + name_width + 10.0;
  }
  [[nodiscard]] double x(double seconds) const {
    return left + (seconds - begin) / (end - begin) * (kTimeRight - kValueWidth - left);
  }
};

std::string change_axis(const ChangeScale& scale, double bottom) {
  const double step = tick_step(scale.end - scale.begin, 8.0);
  std::string axis;
  for (double i = std::ceil(scale.begin / step); i * step <= scale.end; ++i) {
    const double x = scale.x(i * step);
    axis += svg_line("grid", x, kFirstRow, x, bottom) +
            svg_text("quiet mid", x, bottom + 16.0, tick_text(i * step, step));
  }
  const std::string name =
      scale.begin > 0 ? "seconds of a step; the axis does not begin at 0" : "seconds of a step";
  return axis +
         svg_text("quiet mid", (scale.left + kTimeRight - kValueWidth) / 2, bottom + 34.0, name);
}

/// Jags at the left end of a bar that begins outside of the picture.
std::string jags(double x, double y) {
  std::string path = fmt::format("M{:.1f} {:.1f}", x, y);
  constexpr int kJags = 4;
  constexpr double kStep = kRowHeight / (2 * kJags), kDepth = 5.0;
  for (int i = 0; i < kJags; ++i)
    path += fmt::format("l{:.1f} {:.1f}l{:.1f} {:.1f}", kDepth, kStep, -kDepth, kStep);
  return fmt::format("<path d=\"{}Z\" fill=\"#ffffff\"/>\n", path);
}

}  // namespace

std::string waterfall_svg(const std::string& title,
                          const std::vector<std::pair<std::string, double>>& term_seconds) {
  double total = 0;
  double name_width = text_width("step");
  for (const auto& [name, seconds] : term_seconds) {
    total += seconds;
    name_width = std::max(name_width, text_width(name));
  }
  const double left = kMargin + name_width + 10.0;
  const double per_second = (kTimeRight - kValueWidth - left) / total;
  std::string body = svg_text("title", kMargin, 28.0, title);
  double begin = 0, y = kFirstRow;
  const auto add_row = [&](const std::string& name, double from, double seconds,
                           std::string_view colour) {
    const double x = left + from * per_second, width = seconds * per_second;
    body += svg_text("end", left - 10.0, y + kTextDown, name) +
            svg_bar(x, y, std::max(width, 1.0), kRowHeight, colour) +
            svg_text("", x + width + 8.0, y + kTextDown,
                     fmt::format("{} ms, {:.1f} %", milliseconds_text(seconds),
                                 100.0 * seconds / total));
    y += kRowHeight + kRowGap;
  };
  for (std::size_t i = 0; i < term_seconds.size(); ++i) {
    const auto& [name, seconds] = term_seconds[i];
    if (seconds <= 0) continue;
    add_row(name, begin, seconds, fill_colour(i));
    begin += seconds;
    const double x = left + begin * per_second;
    body += svg_line("grid", x, y - kRowGap, x, y);
  }
  add_row("step", 0.0, total, kSumColour);
  return svg_file(y + kMargin, body);
}

std::string change_svg(const StepChange& change) {
  constexpr std::size_t kShorter = 0,
                        kLonger = 1;  // colours: told apart also without red and green
  const ChangeScale scale(change);
  std::string body;
  double y = kFirstRow;
  const auto add_row = [&](const std::string& name, double from, double to, std::string_view colour,
                           const std::string& value) {
    const double x = scale.x(std::min(from, to)), end = scale.x(std::max(from, to));
    body += svg_text("end", scale.left - 10.0, y + kTextDown, name) +
            svg_bar(x, y, std::max(end - x, 1.0), kRowHeight, colour) +
            svg_text("", end + 8.0, y + kTextDown, value);
    y += kRowHeight + kRowGap;
  };
  const auto add_step = [&](const std::string& name, double seconds, const std::string& value) {
    const double top = y;
    add_row(name, scale.begin, seconds, kSumColour, value);
    if (scale.begin > 0) body += jags(scale.left, top);
  };
  double at = change.from_seconds;
  add_step(change.from_name, at, fmt::format("{:.4g} s", at));
  for (const auto& [name, seconds] : change.changes) {
    if (std::abs(seconds) < kLeastChange * change.from_seconds) continue;
    body += svg_line("tick", scale.x(at), y - kRowGap, scale.x(at), y);
    add_row(name, at, at + seconds, fill_colour(seconds > 0 ? kLonger : kShorter),
            fmt::format("{}{} ms", seconds > 0 ? "+" : "-", milliseconds_text(std::abs(seconds))));
    at += seconds;
  }
  add_step(change.to_name, at,
           fmt::format("{:.4g} s, {:+.1f} %", at, 100 * (at / change.from_seconds - 1)));
  return svg_file(y + 40.0,
                  svg_text("title", kMargin, 28.0, change.title) + change_axis(scale, y) + body);
}

}  // namespace trireme
