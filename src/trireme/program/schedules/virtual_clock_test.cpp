#include "trireme/program/schedules/virtual_clock.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

using nlohmann::json;

/// The published vectors (an independent simulator made them) use other names.
std::string our_name(std::string name) {
  if (name.starts_with("f1b1")) name.replace(0, 4, "1f1b");
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

json vectors() {
  std::ifstream file(TRIREME_SCHEDULE_VECTORS);
  return json::parse(file)["vectors"];
}

ScheduleShape shape_of(const json& vector) {
  return {.ranks = vector["p"],
          .chunks = vector["chunks_per_rank"],
          .micro_batches = vector["m"],
          .group = vector["group"].is_null() ? 0 : vector["group"].get<int>()};
}

ScheduleCosts costs_of(const json& costs) {
  return {.forward = costs["F"],
          .input = costs["I"],
          .weight = costs["W"],
          .latency = costs["C"],
          .overlapped = costs.value("OV", 0.0)};
}

TEST(ScheduleVectors, OrdersAndStartTimesAreThoseOfTheIndependentSimulator) {
  int num_checked = 0;
  for (const json& vector : vectors()) {
    SCOPED_TRACE(vector["id"].get<std::string>());
    const Schedule schedule = make_schedule(our_name(vector["schedule"]), shape_of(vector));
    EXPECT_EQ(check_schedule(schedule), std::nullopt);
    std::vector<std::vector<std::string>> order;
    for (const Order& of_rank : schedule.orders) {
      auto& texts = order.emplace_back();
      for (const ScheduleStep& step : of_rank) texts.push_back(step_text(step));
    }
    EXPECT_EQ(order, vector["order"].get<decltype(order)>());
    const ScheduleTimes times = run_virtual_clock(schedule, costs_of(vector["costs"]));
    EXPECT_EQ(times.starts, vector["starts"].get<decltype(times.starts)>());
    EXPECT_EQ(times.busy, vector["busy_per_rank"].get<std::vector<double>>());
    EXPECT_DOUBLE_EQ(times.makespan, vector["makespan"]);
    EXPECT_NEAR(times.bubble_ratio(), vector["bubble_ratio"].get<double>(), 1e-6);
    EXPECT_EQ(times.in_flight,
              vector["peak_inflight_until_backward_input"].get<std::vector<int>>());
    EXPECT_EQ(times.in_flight_until_weight,
              vector["peak_inflight_until_weight_grad"].get<std::vector<int>>());
    ++num_checked;
  }
  EXPECT_EQ(num_checked, 36);
}

/// Largest idle time of a rank if the step ends for all at once.
double flush_bubble(const ScheduleTimes& times) {
  return times.makespan - *std::max_element(times.busy.begin(), times.busy.end());
}

struct ClosedForm {
  const char* name;
  int chunks;
  /// Flush bubble; p ranks, costs (F, I, W). Each holds for m >= 2p that p divides, and, where
  /// `needs_equal` says so, only for F = I >= W.
  double (*bubble)(double p, double f, double i, double w);
  bool needs_equal = false;
};

const ClosedForm kClosedForms[] = {
    {"gpipe", 1, [](double p, double f, double i, double w) { return (p - 1) * (f + i + w); }},
    {"1f1b", 1, [](double p, double f, double i, double w) { return (p - 1) * (f + i + w); }},
    {"interleaved", 2,
     [](double p, double f, double i, double w) { return (p - 1) * (f + i + w); }},
    {"interleaved", 3,
     [](double p, double f, double i, double w) { return (p - 1) * (f + i + w); }},
    {"breadth-first", 2,
     [](double p, double f, double i, double w) { return (p - 1) * (f + i + w); }},
    {"zb-h1", 1,
     [](double p, double f, double i, double w) {
       return (p - 1) * std::max({f, i, f + i - w});
     }},
    {"zb-h2", 1,
     [](double p, double f, double i, double w) {
       return (p - 1) * std::max({f, i - f, f + i - 2 * w});
     }},
};

TEST(ClosedForms, OfTheBubbleHoldForManyCosts) {
  for (const ClosedForm& form : kClosedForms) {
    for (const int p : {2, 4, 6}) {
      for (const int rounds : {2, 3}) {
        const Schedule schedule = make_schedule(
            form.name, {.ranks = p, .chunks = form.chunks, .micro_batches = rounds * p});
        for (const double f : {1, 2, 4}) {
          for (const double i : {1, 3, 4}) {
            for (const double w : {1, 2, 6}) {
              const ScheduleTimes times =
                  run_virtual_clock(schedule, {.forward = f, .input = i, .weight = w});
              EXPECT_DOUBLE_EQ(flush_bubble(times), form.bubble(p, f, i, w))
                  << form.name << " p " << p << " m " << rounds * p << " costs " << f << ' ' << i
                  << ' ' << w;
            }
          }
        }
      }
    }
  }
}

TEST(InFlight, OneForwardOneBackwardHoldsAsManyAsStagesFollow) {
  for (const int m : {2, 4, 9}) {
    const Schedule schedule = make_schedule("1f1b", {.ranks = 4, .micro_batches = m});
    const ScheduleTimes times = run_virtual_clock(schedule, {});
    for (int stage = 0; stage < 4; ++stage) {
      EXPECT_EQ(times.in_flight[static_cast<std::size_t>(stage)], std::min(m, 4 - stage));
    }
  }
}

TEST(VirtualClock, RanksThatWaitForEachOtherAreNamed) {
  const Schedule schedule = parse_schedule_csv("0F0,0F1,0B0,0B1\n1F0,1F1,1B1,1B0\n", "crossed");
  EXPECT_NO_THROW(static_cast<void>(run_virtual_clock(schedule, {})));
  const Schedule stuck = parse_schedule_csv("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", "stuck");
  try {
    static_cast<void>(run_virtual_clock(stuck, {}));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 at 0B0, rank 1 at 1F1"), std::string::npos)
        << error.what();
  }
}

TEST(VirtualClock, NegativeCostsAreRefused) {
  const Schedule schedule = make_schedule("gpipe", {});
  EXPECT_THROW(static_cast<void>(run_virtual_clock(schedule, {.weight = -1})), UsageError);
}

}  // namespace
}  // namespace trireme
