#include "trireme/comm/traffic.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(CutElems, GivesTheRemainderToTheFirstRanks) {
  EXPECT_EQ(cut_elems(10, 4, 0), (ElemRange{.begin = 0, .count = 3}));
  EXPECT_EQ(cut_elems(10, 4, 1), (ElemRange{.begin = 3, .count = 3}));
  EXPECT_EQ(cut_elems(10, 4, 2), (ElemRange{.begin = 6, .count = 2}));
  EXPECT_EQ(cut_elems(10, 4, 3), (ElemRange{.begin = 8, .count = 2}));
}

TEST(CutElems, LeavesLateRanksEmptyWhenThereAreFewElements) {
  EXPECT_EQ(cut_elems(1, 4, 0), (ElemRange{.begin = 0, .count = 1}));
  EXPECT_EQ(cut_elems(1, 4, 3), (ElemRange{.begin = 1, .count = 0}));
  EXPECT_EQ(cut_elems(0, 4, 2), (ElemRange{.begin = 0, .count = 0}));
}

// 12 f32 elements, P = 48 bytes, n = 4, p = 12.
CommCall even_call(CommOp op, int rank = 1) {
  return {.op = op, .num_elems = 12, .elem_bytes = 4, .size = 4, .rank = rank, .root = 0};
}

TEST(BytesSent, OfShardedOperationsFollowsTheRing) {
  EXPECT_EQ(bytes_sent(even_call(CommOp::kReduceScatter)), 36);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kAllGather)), 36);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kAllToAll)), 36);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kAllReduce)), 72);
}

TEST(BytesSent, OfRootedOperationsDependsOnTheRoot) {
  EXPECT_EQ(bytes_sent(even_call(CommOp::kBroadcast, 0)), 144);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kBroadcast, 1)), 0);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kScatter, 0)), 36);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kScatter, 1)), 0);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kGather, 0)), 0);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kGather, 1)), 12);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kReduce, 0)), 36);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kReduce, 1)), 48);
}

TEST(BytesSent, OfMessagesIsTheMessageOnTheSender) {
  EXPECT_EQ(bytes_sent(even_call(CommOp::kSend)), 48);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kRecv)), 0);
  EXPECT_EQ(bytes_sent(even_call(CommOp::kBarrier)), 0);
}

TEST(BytesSent, OfAnUnevenAllReduceAddsUpToTwoBuffersPerPeer) {
  std::int64_t total = 0;
  for (int rank = 0; rank < 4; ++rank) {
    total += bytes_sent(
        {.op = CommOp::kAllReduce, .num_elems = 6, .elem_bytes = 8, .size = 4, .rank = rank});
  }
  EXPECT_EQ(total, 2 * 48 * 3);
}

TEST(BytesSent, OfAnUnevenAllReduceIsMoreForALongerCut) {
  // Cuts 2 2 1 1: rank 0 sends 4 + 2 * 3 elements, rank 3 sends 5 + 1 * 3.
  EXPECT_EQ(bytes_sent({.op = CommOp::kAllReduce, .num_elems = 6, .elem_bytes = 8, .size = 4}), 80);
  EXPECT_EQ(
      bytes_sent({.op = CommOp::kAllReduce, .num_elems = 6, .elem_bytes = 8, .size = 4, .rank = 3}),
      64);
}

TEST(BytesSent, OfAGroupOfOneIsNothing) {
  for (const CommOp op :
       {CommOp::kBroadcast, CommOp::kScatter, CommOp::kGather, CommOp::kReduce, CommOp::kAllReduce,
        CommOp::kReduceScatter, CommOp::kAllGather, CommOp::kAllToAll}) {
    EXPECT_EQ(bytes_sent({.op = op, .num_elems = 5, .elem_bytes = 4}), 0) << comm_op_name(op);
  }
}

TEST(MessageSteps, AreTwoRoundsForAnAllReduceAndOneForAMessage) {
  EXPECT_EQ(message_steps(CommOp::kAllReduce, 8), 14);
  EXPECT_EQ(message_steps(CommOp::kReduceScatter, 8), 7);
  EXPECT_EQ(message_steps(CommOp::kSend, 8), 1);
  EXPECT_EQ(message_steps(CommOp::kAllReduce, 1), 0);
}

}  // namespace
}  // namespace trireme
