// Mutants of ZeRO-2 and ZeRO-3: buckets that are reduced at once, parameters gathered by unit.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

/// Two ranks, three micro-batches of an untied model, small buckets.
Programs at_once() {
  return trained(
      {.dp = 2, .zero = 2, .reduce = GradientReduction::kMicroBatch, .bucket_mib = 0.001}, 3,
      even_llama());
}
Programs gathered(Reshard reshard = Reshard::kAlways) {
  return trained({.dp = 2, .zero = 3, .reshard = reshard}, 3, even_llama());
}

Match scatters(const Program& program, int root) {
  const std::string shard = root_name("grad_shards", root);
  return [&program, shard](const Instruction& instruction) {
    return instruction.op == Op::kReduceScatter &&
           program.buffer(instruction.find(Role::kShard)->range.buffer).name == shard;
  };
}
Match gathers(const Program& program, std::string_view buffer) {
  return moves(program, Op::kAllGather, buffer);
}

TEST(VerifyZero, AcceptsWhatIsBuilt) {
  EXPECT_EQ(fault(verify(at_once())), "");
  EXPECT_EQ(fault(verify(gathered())), "");
  EXPECT_EQ(fault(verify(gathered(Reshard::kNever))), "");
}

// Buckets reduced at once
// --------------------------------------------------------------------------------------------------

TEST(VerifyV10, RefusesABucketOfAMicroBatchThatIsNotReduced) {
  EXPECT_EQ(broken(changed(at_once(), [](Program& p) { drop(p, "micro.next", scatters(p, 0)); })),
            "V10");
}

TEST(VerifyV10, RefusesABucketThatIsReducedTwice) {
  EXPECT_EQ(
      broken(changed(at_once(), [](Program& p) { duplicate(p, "micro.next", scatters(p, 1)); })),
      "V10");
}

TEST(VerifyV10, RefusesAShardThatLaterMicroBatchesWriteOver) {
  EXPECT_EQ(broken(changed(at_once(),
                           [](Program& p) {
                             the(p, "micro.next", scatters(p, 0)).find(Role::kShard)->access =
                                 Access::kWrite;
                             rederive(p);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesABucketThatIsReducedIntoAnothersShard) {
  Programs units =
      trained({.dp = 2, .zero = 3, .reduce = GradientReduction::kMicroBatch}, 3, even_llama());
  EXPECT_EQ(broken(changed(std::move(units),
                           [](Program& p) {  // two layers, alike in size
                             Range& shard =
                                 the(p, "micro.next", scatters(p, 1)).find(Role::kShard)->range;
                             shard.buffer = *p.find_buffer("grad_shards.2");
                             rederive(p);
                           })),
            "V10");
}

// DeepSpeed pull request 7965: the memory of a bucket was used again while it was still reduced.
TEST(VerifyV5, RefusesABucketThatFillsBeforeTheReductionThatReadsItsMemoryIsDone) {
  EXPECT_EQ(broken(changed(at_once(),
                           [](Program& p) {
                             for (Template& item : p.templates) {
                               for (Instruction& instruction : item.instructions) {
                                 if (!is_backward(instruction.op)) continue;
                                 std::erase_if(instruction.waits, [](const Wait& wait) {
                                   return wait.stream == Stream::kComm;
                                 });
                               }
                             }
                           })),
            "V5");
}

TEST(VerifyV10, RefusesAReductionBeforeTheLastGradientOfItsBucket) {
  EXPECT_EQ(broken(changed(at_once(),
                           [](Program& p) {
                             auto& micro = body(p, "micro.next");
                             const std::size_t at = find(p, "micro.next", scatters(p, 0));
                             ASSERT_TRUE(is_backward(micro[at - 1].op));
                             std::swap(micro[at - 1], micro[at]);
                             rederive(p);
                           })),
            "V10");
}

// Gathered parameters
// --------------------------------------------------------------------------------------------------

TEST(VerifyV2, RefusesParametersThatAreNotGathered) {
  EXPECT_EQ(broken(changed(gathered(),
                           [](Program& p) { drop(p, "micro.next", gathers(p, "gathered.1.1")); })),
            "V2");
  EXPECT_EQ(broken(changed(gathered(Reshard::kNever),
                           [](Program& p) { drop(p, "begin", gathers(p, "gathered.1")); })),
            "V2");
}

TEST(VerifyV16, RefusesTheParametersOfAnotherLayer) {
  EXPECT_EQ(broken(changed(gathered(),
                           [](Program& p) {
                             Range& shard =
                                 the(p, "micro.next", gathers(p, "gathered.1")).uses.front().range;
                             const auto other = p.find_buffer("params.2");
                             ASSERT_EQ(p.buffer(*other).bytes, shard.bytes);
                             shard.buffer = *other;
                             rederive(p);
                           })),
            "V16");
}

TEST(VerifyV12, RefusesMomentsGatheredAsParameters) {
  EXPECT_EQ(broken(changed(gathered(),
                           [](Program& p) {  // the embedding's, in later micro-batches alone
                             const std::string embedding = root_name("gathered", num_roots(p) - 1);
                             Range& shard =
                                 the(p, "micro.next", gathers(p, embedding)).uses.front().range;
                             shard.buffer = *p.find_buffer(root_name("moments1", num_roots(p) - 1));
                             rederive(p);
                           })),
            "V12");
}

TEST(VerifyV12, RefusesAGatherOverOtherRanks) {
  EXPECT_EQ(broken(changed(trained({.dp = 4, .zero = 3, .dp_shard = 2}, 3, even_llama()),
                           [](Program& p) {
                             the(p, "micro.next", gathers(p, "gathered.1")).comm->group =
                                 "dp_replicate";
                           })),
            "V12");
}

TEST(VerifyV11, RefusesAGatherOfUpdatedParameters) {
  EXPECT_EQ(broken(changed(gathered(Reshard::kNever),
                           [](Program& p) {
                             body(p, "end").push_back(body(p, "begin").back());
                             rederive(p);
                           })),
            "V11");
}

TEST(VerifyV12, RefusesAPartThatWritesGatheredParameters) {
  EXPECT_EQ(broken(changed(
                gathered(Reshard::kNever),
                [](Program& p) {
                  const Range place = p.parameters.back().parameter;
                  body(p, "end").push_back(make(Op::kZero, {{Role::kY, Access::kWrite, place}}));
                  rederive(p);
                })),
            "V12");
}

TEST(VerifyV12, RefusesAShardThatIsNotUpdated) {
  EXPECT_EQ(broken(changed(gathered(), [](Program& p) { drop(p, "end", is(Op::kOptStep)); })),
            "V12");
}

}  // namespace
}  // namespace trireme::mutation
