// Mutants that break values: V10 to V12 and V14 to V17.
#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/program/roots.h"
#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

// V10
// --------------------------------------------------------------------------------------------------

TEST(VerifyV10, RefusesAGradientThatIsNotReduced) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             drop(p, "reduce", moves(p, Op::kAllReduce, MemoryKind::kGradients));
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAGradientThatIsReducedTwice) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             duplicate(p, "reduce",
                                       moves(p, Op::kAllReduce, MemoryKind::kGradients));
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAReductionPerMicroBatch) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             const Instruction reduction =
                                 the(p, "reduce", moves(p, Op::kAllReduce, MemoryKind::kGradients));
                             body(p, "micro.next").push_back(reduction);
                             rederive(p);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAReductionBeforeTheLastContribution) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             auto& reductions = body(p, "reduce");
                             auto& backward = body(p, "micro.next");
                             backward.insert(backward.begin() + 1, reductions.front());
                             reductions.erase(reductions.begin());
                             rederive(p);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesALateWriteThatForgetsEarlierMicroBatches) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "micro.next", is(Op::kBackwardWeight, Part::kMlpUp, 0))
                                 .find(Role::kDWeight)
                                 ->access = Access::kWrite;
                           })),
            "V10");
}

TEST(VerifyV10, RefusesTheGradientOfAnotherLayer) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             const Range other =
                                 the(p, "micro.next", is(Op::kBackwardWeight, Part::kQkv, 0))
                                     .find(Role::kDWeight)
                                     ->range;
                             the(p, "micro.next", is(Op::kBackwardWeight, Part::kQkv, 1))
                                 .find(Role::kDWeight)
                                 ->range = other;
                             rederive(p);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAGradientFourBytesAside) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "micro.next", is(Op::kBackwardWeight, Part::kQkv, 1))
                                 .find(Role::kDWeight)
                                 ->range.offset += 4;
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAShardFourBytesAside) {
  EXPECT_EQ(broken(changed(trained(kSharded),
                           [](Program& p) {
                             Range& shard =
                                 the(p, "reduce", is(Op::kReduceScatter)).find(Role::kShard)->range;
                             shard.offset += shard.offset == 0 ? 4 : -4;
                           })),
            "V10");
}

TEST(VerifyV10, RefusesATiedTableWithoutItsHead) {
  EXPECT_EQ(broken(changed(trained(kOneRank, 3, small_gpt2()),
                           [](Program& p) { drop(p, "tie", is(Op::kAdd)); })),
            "V10");
}

TEST(VerifyV10, RefusesATiedTableWithItsHeadTwice) {
  EXPECT_EQ(broken(changed(trained(kOneRank, 3, small_gpt2()),
                           [](Program& p) { duplicate(p, "tie", is(Op::kAdd)); })),
            "V10");
}

TEST(VerifyV10, RefusesATiedHeadThatIsAddedInEveryMicroBatch) {
  EXPECT_EQ(broken(changed(trained(kOneRank, 3, small_gpt2()),
                           [](Program& p) {
                             const Instruction add = the(p, "tie", is(Op::kAdd));
                             body(p, "micro.next").push_back(add);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesAnUpdateFromAnotherParametersGradient) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             auto& end = body(p, "end");
                             const std::size_t at = find(p, "end", is(Op::kOptStep));
                             end[at].find(Role::kGradient)->range =
                                 end[at + 1].find(Role::kGradient)->range;
                           })),
            "V10");
}

// V11, V12
// --------------------------------------------------------------------------------------------------

TEST(VerifyV11, RefusesAReadOfAnUpdatedParameter) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            const Range read =
                the(p, "micro.next", is(Op::kBackward, Part::kHead)).find(Role::kWeight)->range;
            const BufferId copy = p.add_buffer({.name = "copy",
                                                .kind = MemoryKind::kWorkspace,
                                                .content = Content::kStep,
                                                .bytes = read.bytes});
            body(p, "end").push_back(make(Op::kCopy, {{Role::kX, Access::kRead, read},
                                                      {Role::kY, Access::kWrite, p.whole(copy)}}));
          })),
      "V11");
}

TEST(VerifyV12, RefusesAParameterWithoutUpdate) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank), [](Program& p) { drop(p, "end", is(Op::kOptStep)); })),
      "V12");
}

TEST(VerifyV12, RefusesASecondUpdate) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank), [](Program& p) { duplicate(p, "end", is(Op::kOptStep)); })),
      "V12");
}

TEST(VerifyV12, RefusesABucketThatIsNotGathered) {
  EXPECT_EQ(
      broken(changed(trained(kSharded), [](Program& p) { drop(p, "end", is(Op::kAllGather)); })),
      "V12");
}

TEST(VerifyV12, RefusesAGatherBeforeTheUpdate) {
  EXPECT_EQ(
      broken(changed(trained(kSharded),
                     [](Program& p) { move_behind(p, "end", is(Op::kAllGather), is(Op::kClip)); })),
      "V12");
}

TEST(VerifyV12, RefusesAShardThatItsOwnerDoesNotUpdate) {
  EXPECT_EQ(
      broken(changed(trained(kSharded), [](Program& p) { drop(p, "end", is(Op::kOptStep)); })),
      "V12");
}

TEST(VerifyV12, RefusesMomentsFourBytesAside) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "end", is(Op::kOptStep)).find(Role::kMoment2)->range.offset +=
                                 4;
                           })),
            "V12");
}

/// A training step in bf16, whose parameters have masters.
Programs trained_in_bf16(Layout layout) {
  BuildRequest request = small_request(layout, {.seq = 8, .global_batch = 3 * layout.dp});
  request.compute = DType::kBf16;
  return all_ranks(request);
}

TEST(VerifyV12, RefusesAnUpdateWithoutItsMaster) {
  for (const Layout& layout : {kOneRank, kSharded}) {
    const Programs right = trained_in_bf16(layout);
    EXPECT_EQ(broken(right), "");
    EXPECT_EQ(broken(changed(right,
                             [](Program& p) {
                               std::erase_if(
                                   the(p, "end", is(Op::kOptStep)).uses,
                                   [](const Use& use) { return use.role == Role::kMaster; });
                             })),
              "V12");
  }
}

TEST(VerifyV12, RefusesAMasterFourBytesAside) {
  EXPECT_EQ(broken(changed(trained_in_bf16(kOneRank),
                           [](Program& p) {
                             the(p, "end", is(Op::kOptStep)).find(Role::kMaster)->range.offset += 4;
                           })),
            "V12");
}

TEST(VerifyV12, RefusesAPartThatWritesAParameter) {
  EXPECT_EQ(broken(changed(trained(kOneRank, 1),
                           [](Program& p) {
                             the(p, "micro.first", is(Op::kBackwardWeight, Part::kQkv, 0))
                                 .uses.push_back(
                                     {Role::kWorkspace, Access::kWrite, p.parameters[0].parameter});
                           })),
            "V12");
}

// V14, V15
// --------------------------------------------------------------------------------------------------

TEST(VerifyV14, RefusesATokenCountOfOneRankAlone) {
  EXPECT_EQ(
      broken(changed(trained(kTwoRanks),
                     [](Program& p) { drop(p, "begin", moves(p, Op::kAllReduce, "num_tokens")); })),
      "V14");
}

TEST(VerifyV14, RefusesATokenCountThatIsSummedTwice) {
  EXPECT_EQ(broken(changed(
                trained(kTwoRanks),
                [](Program& p) { duplicate(p, "begin", moves(p, Op::kAllReduce, "num_tokens")); })),
            "V14");
}

TEST(VerifyV14, RefusesALossThatIsNotSummed) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) { drop(p, "end", moves(p, Op::kAllReduce, "loss")); })),
            "V14");
}

TEST(VerifyV14, RefusesALossThatIsSummedInEveryMicroBatch) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             const Instruction sum =
                                 the(p, "end", moves(p, Op::kAllReduce, "loss"));
                             body(p, "micro.next").push_back(sum);
                             rederive(p);
                           })),
            "V14");
}

TEST(VerifyV14, RefusesAScaleThatIsNotTheInverseOfTheCount) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            Range& scale =
                the(p, "micro.first", is(Op::kBackward, Part::kHead)).find(Role::kScale)->range;
            scale = {*p.find_buffer("rope.cos"), 0, 4};
          })),
      "V14");
}

TEST(VerifyV14, RefusesAnUpdateWithoutThisStepsCoefficient) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "end", is(Op::kOptStep)).find(Role::kCoefficient)->range = {
                                 *p.find_buffer("rope.cos"), 0,
                                 p.buffer(*p.find_buffer("coef")).bytes};
                           })),
            "V14");
}

TEST(VerifyV15, RefusesAParameterThatIsMissingInTheNorm) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank), [](Program& p) { drop(p, "end", is(Op::kNormSquare)); })),
      "V15");
}

TEST(VerifyV15, RefusesAParameterThatIsInTheNormTwice) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) { duplicate(p, "end", is(Op::kNormSquare)); })),
            "V15");
}

TEST(VerifyV15, RefusesANormOfOneShardAlone) {
  EXPECT_EQ(
      broken(changed(trained(kSharded),
                     [](Program& p) { drop(p, "end", moves(p, Op::kAllReduce, "norm_sq")); })),
      "V15");
}

TEST(VerifyV15, RefusesANormThatReplicasSum) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             auto& end = body(p, "end");
                             const auto at =
                                 static_cast<std::ptrdiff_t>(find(p, "end", is(Op::kClip)));
                             end.insert(end.begin() + at,
                                        all_reduce(p, p.whole(*p.find_buffer("norm_sq")), "dp"));
                             rederive(p);
                           })),
            "V15");
}

TEST(VerifyV15, RefusesAShardThatIsMissingInTheNorm) {
  EXPECT_EQ(
      broken(changed(trained(kSharded), [](Program& p) { drop(p, "end", is(Op::kNormSquare)); })),
      "V15");
}

// V16, V17
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesTheInputOfAnotherLayer) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kBackwardWeight, Part::kMlpUp, 1)).find(Role::kX)->range =
                p.whole(*p.find_buffer("L0.mlp_norm"));
            rederive(p);
          })),
      "V16");
}

TEST(VerifyV16, RefusesTheWeightOfAnotherLayer) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            const Range other =
                the(p, "micro.first", is(Op::kForward, Part::kMlpUp, 0)).find(Role::kWeight)->range;
            for (const Op op : {Op::kForward, Op::kBackwardInput})
              the(p, "micro.first", is(op, Part::kMlpUp, 1)).find(Role::kWeight)->range = other;
          })),
      "V16");
}

TEST(VerifyV16, RefusesAWeightFourBytesAside) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "micro.first", is(Op::kForward, Part::kMlpUp, 1))
                                 .find(Role::kWeight)
                                 ->range.offset += 4;
                           })),
            "V16");
}

TEST(VerifyV16, RefusesRecomputationFromTheInputOfAnotherLayer) {
  Layout layout = kOneRank;
  layout.recompute = Recompute::kFull;
  const auto stale = [](Program& p) {
    the(p, "micro.first", is(Op::kRecompute, Part::kMlpNorm, 1)).find(Role::kX)->range =
        p.whole(*p.find_buffer("embed"));
    rederive(p);
  };
  EXPECT_EQ(broken(changed(trained(layout), stale)), "V16");
}

TEST(VerifyV16, RefusesStatisticsOfAnotherNorm) {
  Layout layout = kOneRank;
  layout.recompute = Recompute::kSelective;
  const auto stale = [](Program& p) {
    the(p, "micro.first", is(Op::kRecompute, Part::kAttnNorm, 1)).find(Role::kStats)->range =
        p.whole(*p.find_buffer("L0.attn_norm.stats"));
    rederive(p);
  };
  EXPECT_EQ(broken(changed(trained(layout), stale)), "V16");
}

TEST(VerifyV16, RefusesRecomputationWithoutDropout) {
  Layout layout = kOneRank;
  layout.recompute = Recompute::kFull;
  const auto without = [](Program& p) {
    drop(p, "micro.first", [](const Instruction& i) {
      return i.op == Op::kRecompute && i.site == Site::kAttnResidual && i.layer == 1;
    });
  };
  EXPECT_EQ(broken(changed(trained(layout, 3, small_gpt2()), without)), "V16");
}

TEST(VerifyV2, RefusesTokensOfTheMicroBatchBefore) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             move_behind(p, "micro.next", is(Op::kLoad),
                                         is(Op::kForward, Part::kEmbed));
                           })),
            "V2");
}

TEST(VerifyV16, RefusesAGradientThatSkipsAPart) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank, 3, small_gpt2()),
                     [](Program& p) {
                       // The residual stream's gradient, without dropout.
                       for (const Op op : {Op::kBackwardInput, Op::kBackwardWeight})
                         the(p, "micro.first", is(op, Part::kMlpDown, 1)).find(Role::kDy)->range =
                             p.whole(*p.find_buffer("d_stream"));
                       rederive(p);
                     })),
      "V16");
}

TEST(VerifyV17, RefusesMicroBatchesOutOfOrder) {
  EXPECT_EQ(broken(changed(
                trained(kOneRank, 4),
                [](Program& p) { std::swap(p.calls[2].micro_batch, p.calls[3].micro_batch); })),
            "V17");
}

}  // namespace
}  // namespace trireme::mutation
