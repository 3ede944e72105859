// Mutants of pipelines, and of what replicas owe each other: messages, frames, V18.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

TEST(VerifyLayouts, AcceptsWhatIsBuilt) {
  for (const Layout& layout : {kPipe, kSplit, kLooped, kV, kMirrored}) {
    EXPECT_EQ(broken(piped(layout)), "") << layout.schedule;
  }
  for (const Layout& layout : {kTensor, kSequence}) {
    EXPECT_EQ(broken(tensor(layout)), "");
    EXPECT_EQ(broken(trained(layout, 2, even_qwen())), "");
  }
  EXPECT_EQ(broken(chunked()), "");
}

// Messages between stages
// --------------------------------------------------------------------------------------------------

TEST(VerifyV7, RefusesAnActivationThatNobodyReceives) {
  Programs programs = piped();
  drop_call(programs[1], "S1.recv.0", 1);
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV7, RefusesAGradientThatNobodySends) {
  Programs programs = piped();
  drop_call(programs[1], "S1.send_gradient.0", 1);
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV2, RefusesAStageWhoseFirstActivationIsNeverPassedOn) {
  Programs programs = piped();
  drop_call(programs[0], "S0.send.1", 0);
  drop_call(programs[1], "S1.recv.0", 0);
  EXPECT_EQ(broken(programs), "V2");
}

TEST(VerifyV16, RefusesAStageThatReadsTheActivationOfAnEarlierMicroBatch) {
  Programs programs = piped();
  drop_call(programs[0], "S0.send.1", 3);
  drop_call(programs[1], "S1.recv.0", 3);
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV7, RefusesTwoSendsInAnotherOrderThanTheirReceipts) {
  Programs programs = piped();
  swap_calls(programs[0], find_call(programs[0], "S0.send.1", 0),
             find_call(programs[0], "S0.send.1", 1));
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV7, RefusesATagThatThePeerDoesNotExpect) {
  Programs programs = piped();
  body(programs[0], "S0.send.1").front().comm->tag += 1;
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV16, RefusesATagOfAnotherStageOnBothEnds) {
  Programs programs = piped();
  body(programs[0], "S0.send.1").front().comm->tag += 100;
  body(programs[1], "S1.recv.0").front().comm->tag += 100;
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV7, RefusesAMessageToTheRankItself) {
  Programs programs = piped();
  body(programs[0], "S0.send.1").front().comm->peer = 0;
  EXPECT_EQ(broken(programs), "V7");
}

/// Lets a message template move `buffer`, in frame 0 of its pool.
void move_other(Program& program, std::string_view name, std::string_view buffer) {
  const BufferId id = *program.find_buffer(buffer);
  body(program, name).front().find(Role::kData)->range = program.whole(id);
  for (Call& call : program.calls) {
    if (program.at(call.template_index).name == name)
      call.frames = {{.pool = program.buffer(id).pool, .frame = 0}};
  }
  rederive(program);
}

TEST(VerifyV16, RefusesAMessageWithTheActivationOfAnotherStage) {
  Programs programs = piped(kLooped);
  move_other(programs[0], "S2.send.1", "S0.out");
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV2, RefusesAMessageWithTheGradientForTheActivation) {
  Programs programs = piped();
  move_other(programs[0], "S0.send.1", "d_S0.stream");
  EXPECT_EQ(broken(programs), "V2");
}

TEST(VerifyV2, RefusesAReceiptIntoTheBufferOfAnotherStage) {
  Programs programs = piped(kLooped);
  move_other(programs[1], "S3.recv.0", "S1.in");
  EXPECT_EQ(broken(programs), "V2");  // the stage's own buffer is never written
}

TEST(VerifyV2, RefusesAFirstCopyBetweenStagesOfARankThatIsMissing) {
  Programs programs = piped(kV);
  drop_call(programs[1], "S2.take", 0);
  EXPECT_EQ(broken(programs), "V2");
}

TEST(VerifyV16, RefusesALaterCopyBetweenStagesOfARankThatIsMissing) {
  Programs programs = piped(kV);
  drop_call(programs[1], "S2.take", 3);
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV16, RefusesACopyOfGradientsThatIsMissing) {
  Programs programs = piped(kV);
  drop_call(programs[1], "S1.take_gradient", 3);
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV5, RefusesASendThatDoesNotWaitForItsStage) {
  Programs programs = piped();
  programs[0].calls[find_call(programs[0], "S0.send.1", 1)].waits.clear();
  EXPECT_EQ(broken(programs), "V5");
}

TEST(VerifyV5, RefusesAStageThatDoesNotWaitForItsReceipt) {
  Programs programs = piped();
  programs[1].calls[find_call(programs[1], "S1.F", 1)].waits.clear();
  EXPECT_EQ(broken(programs), "V5");
}

TEST(VerifyV5, RefusesAReceiptIntoAFrameThatAStageMayStillRead) {
  Programs programs = trained(kPipe, 6, even_llama());
  auto& waits = programs[1].calls[find_call(programs[1], "S1.recv.0", 4)].waits;
  ASSERT_FALSE(waits.empty());
  waits.clear();
  EXPECT_EQ(broken(programs), "V5");
}

// Calls and frames
// --------------------------------------------------------------------------------------------------

/// All micro-batches on frame 0 of a pool.
void share_frame(Program& program, std::string_view pool) {
  const int number = find_pool(program, pool);
  for (Call& call : program.calls) {
    for (CallFrame& at : call.frames) {
      if (at.pool == number) at.frame = 0;
    }
  }
  program.pools[static_cast<std::size_t>(number)].num_frames = 1;
  rederive(program);
}

TEST(VerifyV16, RefusesTwoMicroBatchesInFlightOnOneFrame) {
  Programs programs = piped();
  ASSERT_EQ(programs[0].pools.at(0).num_frames, 2);
  share_frame(programs[0], programs[0].pools[0].name);
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV16, RefusesTwoReceiptsOnOneFrame) {
  Programs programs = piped();
  const std::string pool = "S1.F+S1.B+S1.recv.0";
  ASSERT_EQ(programs[1].pools.at(static_cast<std::size_t>(find_pool(programs[1], pool))).num_frames,
            2);
  share_frame(programs[1], pool);
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV16, RefusesTwoWeightHalvesOnOneFrame) {
  Programs programs = piped(kSplit);
  share_frame(programs[1], "S1.F+S1.W");
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV1, RefusesAWeightHalfBeforeItsInputHalf) {
  Programs programs = piped(kSplit);
  swap_calls(programs[1], find_call(programs[1], "S1.W.next", 3),
             find_call(programs[1], "S1.I.next", 3));
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV1, RefusesAMicroBatchThatAStageNeverComputes) {
  Programs programs = piped();
  drop_call(programs[0], "S0.B.next", 3);
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV1, RefusesTheMicroBatchOfAnotherRankOfTheStage) {
  Programs programs = trained(kMirrored, 4, even_llama());
  for (const char* const name : {"S0.F", "S0.send.1"}) {
    std::swap(programs[0].calls[find_call(programs[0], name, 0)].micro_batch,
              programs[0].calls[find_call(programs[0], name, 1)].micro_batch);
    programs[0].calls[find_call(programs[0], name, 0)].micro_batch = 2;
  }
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV1, RefusesALayerOfAnotherStage) {
  Programs programs = piped();
  for (Instruction& instruction : body(programs[0], "S0.F")) {
    if (instruction.layer == 0) instruction.layer = 1;
  }
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV1, RefusesAPartUnderTheNameOfAnotherStage) {
  Programs programs = piped();
  the(programs[0], "S0.F", is(Op::kForward, Part::kMlpUp, 0)).stage = 1;
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV1, RefusesAChunkOfAPartThatIsNotCut) {
  Programs programs = piped();
  the(programs[1], "S1.B.first", is(Op::kBackward, Part::kHead)).chunk = 0;
  EXPECT_EQ(broken(programs), "V1");
}

TEST(VerifyV13, RefusesTheProgramOfAnotherRank) {
  Programs programs = piped();
  programs[0] = programs[1];
  programs[0].request.rank = 0;
  EXPECT_EQ(broken(programs), "V13");
}

// V18
// --------------------------------------------------------------------------------------------------

/// The activation's backward before the weight half of the product above it: the same values in
/// another order.
void reorder(Program& program, std::string_view name) {
  move_behind(program, name, is(Op::kBackwardWeight, Part::kMlpDown, 1),
              is(Op::kBackward, Part::kAct, 1));
}

TEST(VerifyV18, AcceptsReplicasThatAllWorkInAnotherOrder) {
  EXPECT_EQ(broken(changed(trained({.dp = 2, .tp = 2}, 2, even_llama()),
                           [](Program& p) { reorder(p, "micro.next"); })),
            "");
}

TEST(VerifyV18, RefusesOneRankOfDpThatWorksInAnotherOrder) {
  Programs programs = trained({.dp = 2}, 2, even_llama());
  reorder(programs[1], "micro.next");
  EXPECT_EQ(broken(programs), "V18");
}

TEST(VerifyV18, RefusesOneRankOfTpThatWorksInAnotherOrder) {
  Programs programs = trained({.pp = 2, .tp = 2}, 2, even_llama());
  reorder(programs[3], "S1.B.next");
  EXPECT_EQ(broken(programs), "V18");
}

TEST(VerifyV18, RefusesAReplicaThatDelaysAWeightHalf) {
  Programs programs = trained({.pp = 2, .dp = 2, .schedule = "zb-h1"}, 4, even_llama());
  Program& late = programs[1];
  const std::size_t weight = find_call(late, "S0.W.next", 1);
  ASSERT_NE(weight, 0U);
  swap_calls(late, weight, weight + 1);
  EXPECT_EQ(broken(programs), "V18");
}

}  // namespace
}  // namespace trireme::mutation
