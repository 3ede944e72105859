#include "trireme/program/pipeline.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/base/errors.h"
#include "trireme/base/test_files.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

using Layers = std::vector<std::int64_t>;
using Stages = std::vector<int>;

/// A layer has 8 * (24 + 8 + 32 + 16) = 640 elements in products, the head 8 * vocab.
ModelSpec model(std::int64_t layers, std::int64_t vocab = 1) {
  return resolved({.layers = layers, .hidden = 8, .heads = 2, .ffn = 16, .vocab = vocab});
}

std::string refusal(const ModelSpec& spec, const Layout& layout, int num_micro_batches = 8) {
  return message_of<UsageError>(
      [&] { static_cast<void>(Pipeline(spec, layout, num_micro_batches)); });
}

Layers layers_of(const Pipeline& pipeline) {
  Layers layers;
  for (int stage = 0; stage < pipeline.num_stages(); ++stage) {
    layers.push_back(pipeline.stage(stage).end - pipeline.stage(stage).begin);
  }
  return layers;
}

std::string order_text(const Order& order) {
  std::string text;
  for (const ScheduleStep& step : order) text += (text.empty() ? "" : " ") + step_text(step);
  return text;
}

TEST(BalancedStages, AreEvenWithASmallHead) {
  EXPECT_EQ(balanced_stages(model(8), 4), (Layers{2, 2, 2, 2}));
}

TEST(BalancedStages, TheHeadTakesLayersFromTheLastStage) {
  EXPECT_EQ(balanced_stages(model(8, 160), 3), (Layers{3, 3, 2}));  // the head costs 2 layers
  EXPECT_EQ(balanced_stages(model(7, 160), 4), (Layers{2, 2, 2, 1}));
}

TEST(BalancedStages, WhatIsLeftOverGoesToLaterStages) {
  EXPECT_EQ(balanced_stages(model(6, 80), 4), (Layers{1, 2, 2, 1}));  // the head costs a layer
  EXPECT_EQ(balanced_stages(model(8, 80), 4), (Layers{2, 2, 2, 2}));  // as dear as 2, 2, 3, 1
}

TEST(BalancedStages, AHugeHeadLeavesTheLastStageOneLayer) {
  EXPECT_EQ(balanced_stages(model(6, 100'000), 2), (Layers{5, 1}));
}

TEST(BalancedStages, OneStageHasAllLayers) {
  EXPECT_EQ(balanced_stages(model(5), 1), (Layers{5}));
}

TEST(BalancedStages, MoreStagesThanLayersAreABug) {
  EXPECT_THROW(static_cast<void>(balanced_stages(model(2), 3)), InternalError);
}

TEST(BalancedStages, NoOtherSplitHasACheaperMostExpensiveStage) {
  for (std::int64_t layers = 3; layers <= 9; ++layers) {
    for (const std::int64_t vocab : {1, 80, 120, 200, 640}) {
      SCOPED_TRACE(layers * 1000 + vocab);
      const auto worst = [&](const Layers& split) {
        return std::max({640 * split[0], 640 * split[1], 640 * split[2] + 8 * vocab});
      };
      std::int64_t least = worst({1, 1, layers - 2});
      for (std::int64_t a = 1; a < layers - 1; ++a) {
        for (std::int64_t b = 1; a + b < layers; ++b)
          least = std::min(least, worst({a, b, layers - a - b}));
      }
      EXPECT_EQ(worst(balanced_stages(model(layers, vocab), 3)), least);
    }
  }
}

TEST(Pipeline, OfOneRankRunsMicroBatchAfterMicroBatch) {
  const Pipeline pipeline(model(3), {.schedule = "anything"}, 3);
  EXPECT_EQ(pipeline.schedule().name, "none");
  ASSERT_EQ(pipeline.schedule().num_ranks(), 1);
  EXPECT_EQ(order_text(pipeline.schedule().orders[0]), "0F0 0B0 0F1 0B1 0F2 0B2");
  EXPECT_EQ(layers_of(pipeline), (Layers{3}));
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0}));
  EXPECT_TRUE(pipeline.is_last(0));
  EXPECT_FALSE(pipeline.is_bidirectional());
}

TEST(Pipeline, RunsTheOrdersOfItsSchedule) {
  const Pipeline pipeline(model(4), {.pp = 2, .schedule = "1f1b"}, 3);
  EXPECT_EQ(pipeline.schedule(), make_schedule("1f1b", {.ranks = 2, .micro_batches = 3}));
  EXPECT_EQ(pipeline.num_stages(), 2);
}

TEST(Pipeline, FindsTheStageOfALayer) {
  const Pipeline pipeline(model(5), {.pp = 2, .stages = {2, 3}}, 2);
  EXPECT_EQ(pipeline.stage(1), (StageLayers{.begin = 2, .end = 5}));
  EXPECT_EQ(pipeline.stage_of_layer(1), 0);
  EXPECT_EQ(pipeline.stage_of_layer(2), 1);
  EXPECT_THROW(static_cast<void>(pipeline.stage_of_layer(5)), InternalError);
}

TEST(Pipeline, InterleavedStagesGoAroundTheRanks) {
  const Pipeline pipeline(model(8), {.pp = 2, .schedule = "interleaved", .chunks = 3}, 4);
  EXPECT_EQ(pipeline.num_stages(), 6);
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0, 2, 4}));
  EXPECT_EQ(pipeline.stages_of(1), (Stages{1, 3, 5}));
  EXPECT_EQ(pipeline.rank_of(4, 2), 0);
  EXPECT_TRUE(pipeline.holds(1, 5));
  EXPECT_FALSE(pipeline.holds(0, 5));
}

TEST(Pipeline, AScheduleWithAnyNumberOfChunksHasTwo) {
  EXPECT_EQ(Pipeline(model(8), {.pp = 2, .schedule = "interleaved"}, 4).num_stages(), 4);
  EXPECT_EQ(Pipeline(model(8), {.pp = 2, .schedule = "breadth-first"}, 4).num_stages(), 4);
}

TEST(Pipeline, StagesOfAVGoDownAndBack) {
  const Pipeline pipeline(model(8), {.pp = 3, .schedule = "zb-v"}, 5);
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0, 5}));
  EXPECT_EQ(pipeline.stages_of(2), (Stages{2, 3}));
  EXPECT_FALSE(pipeline.is_bidirectional());
}

TEST(Pipeline, DualpipeHoldsEachStageOnTwoMirroredRanks) {
  const Pipeline pipeline(model(8), {.pp = 4, .schedule = "dualpipe"}, 8);
  EXPECT_TRUE(pipeline.is_bidirectional());
  EXPECT_EQ(pipeline.num_stages(), 4);
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0, 3}));
  EXPECT_EQ(pipeline.stages_of(1), (Stages{1, 2}));
  EXPECT_EQ(pipeline.stages_of(2), (Stages{1, 2}));
  EXPECT_EQ(pipeline.rank_of(0, 0), 0);
  EXPECT_EQ(pipeline.rank_of(0, 7), 3);
}

TEST(Pipeline, TakesTheStagesOfAList) {
  EXPECT_EQ(layers_of(Pipeline(model(6), {.pp = 3, .stages = {0, 6, 0}}, 2)), (Layers{0, 6, 0}));
  EXPECT_EQ(layers_of(Pipeline(model(6), {.stages = {6}}, 2)), (Layers{6}));
  const Layout dualpipe = {.pp = 2, .schedule = "dualpipe", .stages = {4, 2}};
  EXPECT_EQ(layers_of(Pipeline(model(6), dualpipe, 4)), (Layers{4, 2}));
}

TEST(Pipeline, RefusesAListThatDoesNotFit) {
  const std::string one_each = "must have 2 numbers, one for each stage; use for example 3, 3";
  EXPECT_EQ(refusal(model(6), {.pp = 2, .stages = {6}}),
            "[layout] stages = 6 with pp = 2 and [model] layers = 6: " + one_each);
  EXPECT_EQ(refusal(model(6), {.pp = 2, .stages = {2, 2}}),
            "[layout] stages = 2, 2 with pp = 2 and [model] layers = 6: must sum to layers; use "
            "for example 3, 3");
  EXPECT_EQ(refusal(model(6), {.pp = 3, .stages = {3, 0, 3}}),
            "[layout] stages = 3, 0, 3 with pp = 3 and [model] layers = 6: each stage must have a "
            "layer, except the first and the last, which may have 0; use for example 2, 2, 2");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .stages = {-1, 7}}), "each stage must have a layer");
  EXPECT_CONTAINS(refusal(model(1), {.pp = 2, .stages = {1, 1}}), "must sum to layers; correct it");
  EXPECT_CONTAINS(refusal(model(6), {.stages = {3, 3}}), "must have 1 numbers");
}

TEST(Pipeline, RefusesMoreStagesThanLayers) {
  EXPECT_EQ(refusal(model(6), {.pp = 4, .schedule = "zb-v"}),
            "[layout] pp = 4 with schedule = \"zb-v\" makes 8 stages of [model] layers = 6: each "
            "must have a layer (but the ends, with stages = [0, ...]); use pp = 3");
}

TEST(Pipeline, RefusesChunksOfOneRank) {
  EXPECT_EQ(refusal(model(6), {.schedule = "interleaved", .chunks = 2}),
            "[layout] chunks = 2 with pp = 1: one rank has one stage; use chunks = 1, or pp = 2 or "
            "more");
}

TEST(Pipeline, RefusesWhatTheScheduleDoesNotHave) {
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = "1f1"}), "did you mean 1f1b?");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = "zb-v", .chunks = 1}), "use chunks = 2");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = "dualpipe"}, 3), "use 4 micro-batches");
}

TEST(Pipeline, RefusesSoManyMicroBatchesThatTheirOrderIsTooLong) {
  EXPECT_CONTAINS(refusal(model(1), {}, 1 << 25), "must be at most 16777216");
}

TEST(PipelineOfAFile, RunsItsOrders) {
  const TestFolder folder;
  Schedule schedule = make_schedule("zb-v", {.ranks = 2, .chunks = 2, .micro_batches = 3});
  schedule.name = folder.write("v.csv", schedule_csv(schedule));
  const Pipeline pipeline(model(8), {.pp = 2, .schedule = schedule.name}, 3);
  EXPECT_EQ(pipeline.schedule(), schedule);
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0, 3}));
}

TEST(PipelineOfAFile, KnowsBothDirectionsOfDualpipe) {
  const TestFolder folder;
  const ScheduleShape shape = {.ranks = 2, .chunks = 2, .micro_batches = 4};
  const std::string path = folder.write("dual", schedule_csv(make_schedule("dualpipe", shape)));
  EXPECT_TRUE(Pipeline(model(8), {.pp = 2, .schedule = path}, 4).is_bidirectional());
}

TEST(PipelineOfAFile, RefusesAFileThatIsNone) {
  EXPECT_EQ(refusal(model(6), {.pp = 2, .schedule = "no_such.csv"}),
            "[layout] schedule = \"no_such.csv\" cannot be read: must be a schedule's name or a "
            "file; correct the path");
}

TEST(PipelineOfAFile, RefusesOtherNumbersThanTheLayouts) {
  const TestFolder folder;
  const std::string path = folder.write("a.csv", "0F0,0B0\n1F0,1B0\n");
  const std::string file = "[layout] schedule = \"" + path + "\" has ";
  EXPECT_EQ(refusal(model(6), {.pp = 3, .schedule = path}),
            file + "2 ranks with pp = 3: must be equal; use pp = 2");
  EXPECT_EQ(refusal(model(6), {.pp = 2, .schedule = path}, 4),
            file +
                "1 micro-batches with 4 of a step: must be equal; use global_batch = 1 * "
                "micro_batch * dp");
  EXPECT_EQ(refusal(model(6), {.pp = 2, .schedule = path, .chunks = 2}),
            file +
                "2 stages with pp = 2 and chunks = 2: must be pp * chunks; use chunks = 0, the "
                "file's own number");
}

TEST(PipelineOfAFile, RefusesAStageOnTwoRanksThatAreNoMirrors) {
  const TestFolder folder;
  const std::string path = folder.write("a.csv", "0F0,0B0\n0F1,0B1\n");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = path}, 2),
                  "some stage is on two ranks, so rank 0 must have the stages 0 and 1");
}

TEST(PipelineOfAFile, RefusesARankWithoutAStage) {
  const TestFolder folder;
  const std::string path = folder.write("a.csv", "0F0,0B0\n,\n");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = path}, 1), "rank 1 computes nothing");
}

TEST(PipelineOfAFile, RefusesRanksThatWaitForEachOther) {
  const TestFolder folder;
  const std::string path = folder.write("a.csv", "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  EXPECT_CONTAINS(refusal(model(6), {.pp = 2, .schedule = path}, 2), "wait for each other");
}

TEST(ForwardOnly, PassesGroupsOfMicroBatchesThroughTheChunks) {
  const Layout layout = {.pp = 2, .schedule = "interleaved", .chunks = 2};
  const Pipeline pipeline = Pipeline::forward_only(model(8), layout, 3);
  ASSERT_EQ(pipeline.schedule().num_ranks(), 2);
  EXPECT_EQ(order_text(pipeline.schedule().orders[0]), "0F0 0F1 2F0 2F1 0F2 2F2");
  EXPECT_EQ(order_text(pipeline.schedule().orders[1]), "1F0 1F1 3F0 3F1 1F2 3F2");
}

TEST(ForwardOnly, OfOneRankIsOneForwardAfterTheOther) {
  const Pipeline pipeline = Pipeline::forward_only(model(3), {}, 2);
  EXPECT_EQ(order_text(pipeline.schedule().orders[0]), "0F0 0F1");
}

TEST(ForwardOnly, TakesOneDirectionOfDualpipe) {
  const Pipeline pipeline = Pipeline::forward_only(model(8), {.pp = 2, .schedule = "dualpipe"}, 2);
  EXPECT_EQ(order_text(pipeline.schedule().orders[0]), "0F0 0F1");
  EXPECT_EQ(order_text(pipeline.schedule().orders[1]), "1F0 1F1");
  EXPECT_EQ(pipeline.stages_of(0), (Stages{0, 1}));
}

TEST(ForwardOnly, KeepsThePlacementOfAFileOfAnyNumberOfMicroBatches) {
  const TestFolder folder;
  const std::string path = folder.write("a.csv", "1F0,1B0\n0F0,0B0\n");
  const Pipeline pipeline = Pipeline::forward_only(model(6), {.pp = 2, .schedule = path}, 5);
  EXPECT_EQ(pipeline.stages_of(0), (Stages{1}));
  EXPECT_EQ(pipeline.rank_of(0, 4), 1);
}

void expect_right_forwards(const Layout& layout, int num_micro_batches) {
  SCOPED_TRACE(fmt::format("{} pp {} chunks {} micro-batches {}", layout.schedule, layout.pp,
                           layout.chunks, num_micro_batches));
  const Pipeline training(model(16), layout, 2 * layout.pp);
  const Pipeline forward = Pipeline::forward_only(model(16), layout, num_micro_batches);
  EXPECT_NO_THROW(static_cast<void>(run_virtual_clock(forward.schedule(), {})));
  std::size_t num_ops = 0;
  for (int rank = 0; rank < layout.pp; ++rank) {
    EXPECT_EQ(forward.stages_of(rank), training.stages_of(rank));
    num_ops += forward.schedule().orders[static_cast<std::size_t>(rank)].size();
  }
  EXPECT_EQ(num_ops, static_cast<std::size_t>(forward.num_stages() * num_micro_batches));
}

TEST(ForwardOnly, NeverDeadlocksAndKeepsTheStages) {
  for (const ScheduleKind& kind : schedule_kinds()) {
    for (int pp = 2; pp <= 4; ++pp) {
      for (int chunks = 1; chunks <= 3; ++chunks) {
        if (kind.chunks != 0 && chunks != kind.chunks) continue;
        if (kind.is_bidirectional && pp % 2 != 0) continue;
        const Layout layout = {.pp = pp, .schedule = std::string(kind.name), .chunks = chunks};
        for (int m = 1; m <= 7; ++m) expect_right_forwards(layout, m);
      }
    }
  }
}

}  // namespace
}  // namespace trireme
