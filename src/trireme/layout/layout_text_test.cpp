#include <string>

#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/layout/layout.h"

namespace trireme {
namespace {

std::string parse_error(std::string_view text) {
  Layout layout;
  Batch batch;
  try {
    parse_layout_text(text, layout, batch);
  } catch (const UsageError& error) {
    EXPECT_EQ(layout, Layout{});
    EXPECT_EQ(batch, Batch{});
    return error.what();
  }
  return "";
}

TEST(LayoutText, ListsTheFieldsInOneOrder) {
  const Layout layout = {.dp = 2, .zero = 1, .recompute = Recompute::kSelective};
  EXPECT_EQ(layout_text(layout, {.micro_batch = 4}),
            "pp=1 dp=2 cp=1 tp=1 sp=0 zero=1 mbs=4 dp_sync=overlapped recompute=selective");
}

TEST(LayoutText, AddsWhatIsNotTheDefault) {
  EXPECT_EQ(layout_text({.cp_comm = CpComm::kAllGather, .ep = 2, .bucket_mib = 0.5}, {}),
            "pp=1 dp=1 cp=1 cp_comm=all_gather tp=1 ep=2 sp=0 zero=0 mbs=1 dp_sync=overlapped "
            "bucket_mib=0.5 "
            "recompute=none");
}

TEST(LayoutText, ParsesBack) {
  const Layout layout = {.pp = 2,
                         .dp = 3,
                         .cp = 4,
                         .cp_comm = CpComm::kAllGather,
                         .tp = 5,
                         .ep = 6,
                         .zero = 3,
                         .dp_sync = DpSync::kNaive,
                         .bucket_mib = 0.1,
                         .recompute = Recompute::kFull};
  const Batch batch = {.seq = 64, .micro_batch = 7, .global_batch = 42};
  Layout parsed_layout;
  Batch parsed_batch = {.seq = 64, .global_batch = 42};
  parse_layout_text(layout_text(layout, batch), parsed_layout, parsed_batch);
  EXPECT_EQ(parsed_layout, layout);
  EXPECT_EQ(parsed_batch, batch);
}

TEST(LayoutText, EachStrategyNameParsesBack) {
  for (const DpSync sync : {DpSync::kNaive, DpSync::kBucketed, DpSync::kOverlapped}) {
    for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      const Layout layout = {.dp_sync = sync, .recompute = recompute};
      SCOPED_TRACE(layout_text(layout, {}));
      Layout parsed;
      Batch batch;
      parse_layout_text(layout_text(layout, {}), parsed, batch);
      EXPECT_EQ(parsed, layout);
    }
  }
}

TEST(LayoutText, FieldsLeftOutKeepTheirValue) {
  Layout layout = {.dp = 4, .zero = 1};
  Batch batch = {.seq = 8, .micro_batch = 2};
  parse_layout_text("  recompute=full\tdp=2 ", layout, batch);
  EXPECT_EQ(layout, (Layout{.dp = 2, .zero = 1, .recompute = Recompute::kFull}));
  EXPECT_EQ(batch, (Batch{.seq = 8, .micro_batch = 2}));
}

TEST(LayoutText, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_EQ(parse_error("dp=2 recomputation=full"),
            "[layout] recomputation=full: unknown key 'recomputation'; the nearest valid key is "
            "'recompute'");
  EXPECT_EQ(parse_error("dp-sync=naive"),
            "[layout] dp-sync=naive: unknown key 'dp-sync'; the nearest valid key is 'dp_sync'");
}

TEST(LayoutText, ARepeatedKeyIsRefused) {
  EXPECT_EQ(parse_error("dp=2 zero=1 dp=2"),
            "[layout] dp=2: 'dp' is given twice; keep one of them");
}

TEST(LayoutText, AWordWithoutAValueIsRefused) {
  EXPECT_EQ(parse_error("dp"),
            "[layout] 'dp': every field must be key=value; use for example dp=2 zero=1");
}

TEST(LayoutText, AValueThatIsNoWholeNumberIsRefused) {
  const std::string rule = ": the value must be a whole number in range; use for example dp=1";
  EXPECT_EQ(parse_error("dp="), "[layout] dp=" + rule);
  EXPECT_EQ(parse_error("dp=2x"), "[layout] dp=2x" + rule);
  EXPECT_EQ(parse_error("dp=1.5"), "[layout] dp=1.5" + rule);
  EXPECT_EQ(parse_error("dp=4294967297"), "[layout] dp=4294967297" + rule);
}

TEST(LayoutText, AnUnknownStrategyNamesTheNearestOne) {
  EXPECT_EQ(parse_error("dp_sync=overlap"),
            "[layout] dp_sync=overlap: must be one of naive, bucketed, overlapped; use "
            "dp_sync=overlapped");
}

TEST(LayoutText, NamesScheduleAndStagesOfAPipeline) {
  const Layout layout = {
      .pp = 2, .tp = 2, .sp = true, .schedule = "interleaved", .chunks = 2, .stages = {2, 1, 1, 2}};
  EXPECT_EQ(layout_text(layout, {}),
            "pp=2 dp=1 cp=1 tp=2 sp=1 zero=0 mbs=1 schedule=interleaved:2 stages=2,1,1,2 "
            "dp_sync=overlapped recompute=none");
}

TEST(LayoutText, LeavesOutChunksThatAreTheSchedulesOwn) {
  EXPECT_EQ(layout_text({.pp = 2, .schedule = "zb-v"}, {}),
            "pp=2 dp=1 cp=1 tp=1 sp=0 zero=0 mbs=1 schedule=zb-v dp_sync=overlapped "
            "recompute=none");
}

class PipelineText : public testing::TestWithParam<Layout> {};

TEST_P(PipelineText, ParsesBack) {
  Layout parsed = {.schedule = "gpipe", .chunks = 7};
  Batch batch;
  parse_layout_text(layout_text(GetParam(), {}), parsed, batch);
  EXPECT_EQ(parsed, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    LayoutText, PipelineText,
    testing::Values(Layout{.pp = 2}, Layout{.pp = 2, .schedule = "zb-v"},
                    Layout{.pp = 4, .tp = 2, .sp = true, .schedule = "interleaved", .chunks = 3},
                    Layout{.pp = 2, .stages = {0, 4}},
                    Layout{.pp = 2, .schedule = "some/file.csv", .stages = {1, 2, 3, 4}}),
    [](const auto& test) { return "case" + std::to_string(test.index); });

TEST(LayoutText, AScheduleWithoutChunksHasItsOwnNumber) {
  Layout layout = {.chunks = 3};
  Batch batch;
  parse_layout_text("schedule=zb-v", layout, batch);
  EXPECT_EQ(layout, (Layout{.schedule = "zb-v", .chunks = 0}));
}

TEST(LayoutText, StagesCanBeLeftToTheirCost) {
  Layout layout = {.stages = {1, 2}};
  Batch batch;
  parse_layout_text("stages=", layout, batch);
  EXPECT_EQ(layout, Layout{});
}

TEST(LayoutText, SequenceParallelismIsOnOrOff) {
  EXPECT_EQ(parse_error("sp=2"), "[layout] sp=2: must be 0 or 1; use for example sp=1");
  EXPECT_EQ(parse_error("sp=true"), "[layout] sp=true: must be 0 or 1; use for example sp=1");
}

TEST(LayoutText, ChunksThatAreNoNumberAreRefused) {
  const std::string rule =
      ": chunks behind \":\" must be a whole number >= 1; use for example schedule=zb-v:2";
  EXPECT_EQ(parse_error("schedule=zb-v:"), "[layout] schedule=zb-v:" + rule);
  EXPECT_EQ(parse_error("schedule=zb-v:0"), "[layout] schedule=zb-v:0" + rule);
  EXPECT_EQ(parse_error("schedule=zb-v:2:2"), "[layout] schedule=zb-v:2:2" + rule);
}

TEST(LayoutText, StagesThatAreNoNumbersAreRefused) {
  const std::string rule =
      ": must be whole numbers with commas between; use for example stages=3,3,2";
  EXPECT_EQ(parse_error("stages=3,"), "[layout] stages=3," + rule);
  EXPECT_EQ(parse_error("stages=3;2"), "[layout] stages=3;2" + rule);
}

}  // namespace
}  // namespace trireme
