#include "trireme/report/memory_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/report/svg.h"

namespace trireme {
namespace {

// Lengths are in pixels.
constexpr double kLeft = kTimeLeft;
constexpr double kRight = kTimeRight;
constexpr double kMargin = kPictureMargin;
constexpr double kLegendTop = 46.0;
constexpr double kTop = 88.0;
constexpr double kHeight = 260.0;
constexpr double kBottom = kTop + kHeight;
constexpr double kAxisHeight = 48.0;
constexpr double kMilliseconds = 1e3;

/// From the bottom: what stays, then what comes and goes.
constexpr std::array<MemoryKind, kNumMemoryKinds> kStack = {
    MemoryKind::kParameters,    MemoryKind::kMaster,     MemoryKind::kMoments,
    MemoryKind::kGradients,     MemoryKind::kPacked,     MemoryKind::kWorkspace,
    MemoryKind::kCommunication, MemoryKind::kActivations};

/// The fullest sample of each column of pixels, at most.
std::vector<MemorySample> thinned(const MemoryUse& memory, double end_seconds) {
  std::vector<MemorySample> columns;
  const auto column_of = [&](const MemorySample& sample) {
    return std::floor(sample.seconds / end_seconds * (kRight - kLeft));
  };
  for (const MemorySample& sample : memory.samples) {
    if (columns.empty() || column_of(columns.back()) != column_of(sample)) {
      columns.push_back(sample);
    } else if (sample.total() > columns.back().total()) {
      columns.back().bytes = sample.bytes;
    }
  }
  return columns;
}

/// The picture's scales.
struct Scales {
  double end_seconds = 1;
  double most_bytes = 1;
  [[nodiscard]] double x(double seconds) const {
    return kLeft + seconds / end_seconds * (kRight - kLeft);
  }
  [[nodiscard]] double y(double bytes) const { return kBottom - bytes / most_bytes * kHeight; }
};

/// What lies between two heights of the stack.
std::string area(const std::vector<MemorySample>& samples, const Scales& scales,
                 const std::vector<double>& low, const std::vector<double>& high,
                 std::string_view colour) {
  std::string path;
  const auto end_of = [&](std::size_t i) {
    return scales.x(i + 1 < samples.size() ? samples[i + 1].seconds : scales.end_seconds);
  };
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double y = scales.y(high[i]);
    path += fmt::format("{}{:.1f} {:.1f}H{:.1f}", path.empty() ? 'M' : 'L',
                        scales.x(samples[i].seconds), y, end_of(i));
  }
  for (std::size_t i = samples.size(); i-- > 0;) {
    path += fmt::format("L{:.1f} {:.1f}H{:.1f}", end_of(i), scales.y(low[i]),
                        scales.x(samples[i].seconds));
  }
  return fmt::format("<path d=\"{}Z\" fill=\"{}\"/>\n", path, colour);
}

struct Stack {
  std::vector<LegendItem> legend;
  std::string areas;
};

/// Kinds that never have a byte are left out.
Stack draw_stack(const std::vector<MemorySample>& samples, const Scales& scales) {
  Stack stack;
  std::vector<double> low(samples.size(), 0.0);
  for (std::size_t k = 0; k < kStack.size(); ++k) {
    std::vector<double> high = low;
    double most = 0;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto bytes =
          static_cast<double>(samples[i].bytes.at(static_cast<std::size_t>(kStack.at(k))));
      high[i] += bytes;
      most = std::max(most, bytes);
    }
    if (most <= 0) continue;
    const std::string name = fmt::format("{} {}", memory_kind_name(kStack.at(k)),
                                         format_bytes(static_cast<std::int64_t>(most)));
    stack.legend.push_back({name, fill_colour(k)});
    stack.areas += area(samples, scales, low, high, fill_colour(k));
    low = high;
  }
  return stack;
}

std::string draw_axes(const Scales& scales) {
  std::string axes;
  const bool is_large = scales.most_bytes >= kGib;
  const double unit = is_large ? kGib : kMib;
  const double most = scales.most_bytes / unit;
  const double step = tick_step(most, 5.0);
  for (const double value : tick_values(step, most)) {
    const double y = scales.y(value * unit);
    axes += svg_line("grid", kLeft, y, kRight, y) +
            svg_text("quiet end", kLeft - 10.0, y + 4.5, tick_text(value, step));
  }
  axes += fmt::format(
      "<text class=\"quiet mid\" transform=\"translate({:.2f} {:.2f}) rotate(-90)\">memory "
      "({})</text>\n",
      kLeft - 70.0, kTop + kHeight / 2.0, is_large ? "GiB" : "MiB");
  const double end_ms = scales.end_seconds * kMilliseconds;
  const double step_ms = tick_step(end_ms, 10.0);
  for (const double ms : tick_values(step_ms, end_ms)) {
    const double x = scales.x(ms / kMilliseconds);
    axes += svg_line("tick", x, kBottom, x, kBottom + 6.0) +
            svg_text("quiet mid", x, kBottom + 20.0, tick_text(ms, step_ms));
  }
  return axes + svg_text("quiet mid", (kLeft + kRight) / 2.0, kBottom + 38.0, "time (ms)");
}

/// The mark with its label above it, or below where the line at `limit_y` would strike it through.
std::string draw_peak(const MemoryPeak& peak, const Scales& scales, const std::string& label,
                      double limit_y) {
  constexpr double kAbove = -8.0, kBelow = 18.0, kTextHeight = 28.0;
  const double x = scales.x(peak.seconds);
  const double y = scales.y(static_cast<double>(peak.bytes));
  const bool is_right = x > (kLeft + kRight) / 2;
  const bool is_struck = limit_y > y + kAbove - kTextHeight && limit_y < y;
  return svg_line("makespan", x, y, x, kBottom) +
         fmt::format(
             "<circle cx=\"{:.2f}\" cy=\"{:.2f}\" r=\"4.5\" fill=\"#b3261e\" "
             "stroke=\"#ffffff\"/>\n",
             x, y) +
         svg_text(is_right ? "mark end" : "mark", x + (is_right ? -10.0 : 10.0),
                  y + (is_struck ? kBelow : kAbove), label);
}

}  // namespace

std::string memory_svg(const MemoryUse& memory, const MemoryPicture& picture) {
  constexpr double kHeadroom = 1.12;    // for the label of the peak
  constexpr double kShownLimit = 1.75;  // a limit farther above the peak would flatten the rest
  const auto peak = static_cast<double>(memory.peak.bytes);
  const bool shows_limit = picture.limit_bytes > 0 && picture.limit_bytes < kShownLimit * peak;
  const double most = shows_limit ? std::max(peak, picture.limit_bytes) : peak;
  const std::string title =
      picture.limit_bytes > 0
          ? fmt::format("{}; the device has {}", picture.title,
                        format_bytes(static_cast<std::int64_t>(picture.limit_bytes)))
          : picture.title;
  const Scales scales{.end_seconds = picture.end_seconds, .most_bytes = kHeadroom * most};
  const Stack stack = draw_stack(thinned(memory, picture.end_seconds), scales);
  std::string chart = draw_axes(scales) + stack.areas;
  const double limit_y = scales.y(picture.limit_bytes);
  if (shows_limit) {
    const double y = limit_y;
    chart += svg_line("limit", kLeft, y, kRight, y) +
             svg_text("quiet", kLeft + 6.0, y - 6.0, "memory of the device");
  }
  chart += draw_peak(memory.peak, scales, picture.peak_label, shows_limit ? limit_y : kBottom);
  const Legend legend = svg_legend(stack.legend, kLegendTop);
  const double below = kLegendTop + legend.height + 16.0 - kTop;
  return svg_file(kBottom + kAxisHeight + below,
                  svg_text("title", kMargin, 28.0, title) + legend.body +
                      fmt::format("<g transform=\"translate(0 {:.0f})\">{}</g>\n", below, chart));
}

}  // namespace trireme
