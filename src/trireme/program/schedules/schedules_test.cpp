#include "trireme/program/schedules/schedules.h"

#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"

namespace trireme {
namespace {

std::string refusal(std::string_view name, const ScheduleShape& shape) {
  try {
    static_cast<void>(make_schedule(name, shape));
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

/// Chunks to test a kind with.
int chunks_of(const ScheduleKind& kind) {
  return kind.chunks == 0 ? 3 : kind.chunks;
}

TEST(Schedules, EveryAllowedShapeComputesEachMicroBatchOnceOnEveryStage) {
  int num_allowed = 0;
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int m = 1; m <= 17; ++m) {
        const ScheduleShape shape{.ranks = ranks, .chunks = chunks_of(kind), .micro_batches = m};
        if (!refusal(kind.name, shape).empty()) continue;
        ++num_allowed;
        EXPECT_EQ(check_schedule(make_schedule(kind.name, shape)), std::nullopt)
            << kind.name << " ranks " << ranks << " micro-batches " << m;
      }
    }
  }
  EXPECT_GT(num_allowed, 900);
}

TEST(Schedules, RefusalsNameBothNumbersTheRuleAndAValidNumber) {
  EXPECT_EQ(refusal("zb-h2", {.ranks = 4, .micro_batches = 6}),
            "[schedule] zb-h2 with pp = 4 and 6 micro-batches: needs at least 2 pp - 1; use 7 or "
            "more micro-batches");
  EXPECT_EQ(refusal("interleaved", {.ranks = 4, .chunks = 2, .micro_batches = 3}),
            "[schedule] interleaved with pp = 4 and 3 micro-batches: needs at least pp "
            "micro-batches; use 4 or more");
  EXPECT_EQ(refusal("dualpipe", {.ranks = 4, .chunks = 2, .micro_batches = 9}),
            "[schedule] dualpipe with pp = 4 and 9 micro-batches: needs an even number of at least "
            "2 pp; use 10 micro-batches");
  EXPECT_EQ(refusal("zb-v", {.ranks = 4, .chunks = 1, .micro_batches = 8}),
            "[schedule] zb-v with chunks = 1: this schedule has 2 on a rank; use chunks = 2");
  EXPECT_NE(refusal("1b1f", {}).find("did you mean 1f1b?"), std::string::npos);
  EXPECT_NE(refusal("gpipe", {.micro_batches = 0}).find("micro_batches = 0"), std::string::npos);
}

TEST(Schedules, WhatARefusalSuggestsIsAllowed) {
  EXPECT_EQ(refusal("zb-h2", {.ranks = 4, .micro_batches = 7}), "");
  EXPECT_EQ(refusal("interleaved", {.ranks = 4, .chunks = 2, .micro_batches = 4}), "");
  EXPECT_EQ(refusal("dualpipe", {.ranks = 4, .chunks = 2, .micro_batches = 10}), "");
}

TEST(ScheduleText, ParsesBack) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    Schedule schedule =
        make_schedule(kind.name, {.ranks = 4, .chunks = chunks_of(kind), .micro_batches = 8});
    EXPECT_EQ(parse_schedule_csv(schedule_csv(schedule), kind.name), schedule) << kind.name;
  }
}

TEST(ScheduleText, BubblesAndBlanksAreSkipped) {
  EXPECT_EQ(parse_schedule_csv(" 0F0 ,,0B0\n\n,1F0, 1B0,\n", "x").orders,
            parse_schedule_csv("0F0,0B0\n1F0,1B0\n", "x").orders);
}

TEST(ScheduleText, FaultsAreNamed) {
  const auto error = [](std::string_view text) {
    try {
      static_cast<void>(parse_schedule_csv(text, "f.csv"));
    } catch (const UsageError& caught) {
      return std::string(caught.what());
    }
    return std::string();
  };
  EXPECT_NE(error("0F0,0X0\n").find("f.csv:1: '0X0' is no entry"), std::string::npos);
  EXPECT_NE(error("0F0,0B0\n(1F0;2B0)\n").find("f.csv:2: '(1F0;2B0)'"), std::string::npos);
  EXPECT_NE(error("0F0,0B0,0B0\n").find("0B0 a second time"), std::string::npos);
  EXPECT_NE(error("0F0,0I0,0B0\n").find("0B0 a second time"), std::string::npos);
  EXPECT_NE(error("0B0,0F0\n").find("0B0 before its F"), std::string::npos);
  EXPECT_NE(error("0F0,0W0,0I0\n").find("0W0 before its I"), std::string::npos);
  EXPECT_NE(error("0F0,0I0\n").find("no 0W0"), std::string::npos);
  EXPECT_NE(error("0F0\n0B0\n").find("0B0 is not where its forward is"), std::string::npos);
  EXPECT_NE(error("0F0,0B0,0F2,0B2\n").find("no 0F1"), std::string::npos);
  EXPECT_NE(error("\n").find("it is empty"), std::string::npos);
}

}  // namespace
}  // namespace trireme
