// Mutants of context parallelism: keys and values that go round a ring or are gathered.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

const Layout kRing{.cp = 4};
const Layout kGather{.cp = 4, .cp_comm = CpComm::kAllGather};
constexpr const char* kBody = "micro.next";

Programs ring(const Layout& layout = kRing) {
  return trained(layout, 2);
}

/// A step of attention or a hop of a ring, of layer 0.
Match step(Op op, Part part, int chunk) {
  return [=](const Instruction& i) {
    return i.op == op && i.part == part && i.layer == 0 && i.chunk == chunk;
  };
}
Match key_hop(int hop) {
  return step(Op::kExchange, Part::kRingKv, hop);
}
Match gradient_hop(int hop) {
  return step(Op::kExchange, Part::kRingDkv, hop);
}

/// The rule that refuses the change on every rank, as a faulty pass would make it.
template <typename Change>
std::string rule_on_all(Change change, const Layout& layout = kRing) {
  return broken(changed(ring(layout), change));
}
/// The same on rank 1 alone.
template <typename Change>
std::string rule_on_one(Change change, const Layout& layout = kRing) {
  Programs programs = ring(layout);
  change(programs[1]);
  return broken(programs);
}

TEST(VerifyContext, AcceptsWhatIsBuilt) {
  for (const CpComm comm : {CpComm::kRing, CpComm::kAllGather}) {
    for (const Layout& layout :
         {Layout{.cp = 2}, Layout{.cp = 4}, Layout{.dp = 2, .cp = 2, .zero = 1},
          Layout{.cp = 2, .tp = 2, .sp = true, .recompute = Recompute::kSelective},
          Layout{.cp = 2, .recompute = Recompute::kFull},
          Layout{.pp = 2, .cp = 2, .schedule = "zb-h1"}, Layout{.pp = 2, .cp = 2, .tp = 2}}) {
      Layout other = layout;
      other.cp_comm = comm;
      EXPECT_EQ(fault(verify(trained(other, 2, even_llama()))), "") << layout_text(other, {});
      EXPECT_EQ(fault(verify(trained(other, 2, even_gpt2()))), "") << layout_text(other, {});
    }
  }
}

// Keys and values
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesAStepThatReadsTheOtherSlot) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              const Instruction& before = the(p, kBody, step(Op::kForward, Part::kAttn, 1));
              const Range k = before.find(Role::kK)->range, v = before.find(Role::kV)->range;
              Instruction& attn = the(p, kBody, step(Op::kForward, Part::kAttn, 2));
              attn.find(Role::kK)->range = k;
              attn.find(Role::kV)->range = v;
              rederive(p);
            }),
            "V16");
}

TEST(VerifyV16, RefusesValuesForKeys) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              Instruction& attn = the(p, kBody, step(Op::kBackward, Part::kAttn, 1));
              std::swap(attn.find(Role::kK)->range, attn.find(Role::kV)->range);
            }),
            "V16");
}

TEST(VerifyV16, RefusesKeysOfAnEarlierHop) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, key_hop(3)); }), "V16");
}

TEST(VerifyV2, RefusesASlotThatNothingHasReached) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, key_hop(2)); }), "V2");
}

TEST(VerifyV7, RefusesAHopThatOneRankLeavesOut) {
  EXPECT_EQ(rule_on_one([](Program& p) { drop(p, kBody, key_hop(3)); }), "V7");
}

TEST(VerifyV16, RefusesARingTheOtherWayRound) {
  const auto turn = [](Program& p) {
    for (Template& item : p.templates) {
      for (Instruction& i : item.instructions) {
        if (i.op == Op::kExchange) std::swap(i.comm->peer, i.comm->source);
      }
    }
  };
  EXPECT_EQ(rule_on_all(turn), "V16");
  EXPECT_EQ(rule_on_one(turn), "V7");
}

TEST(VerifyV7, RefusesAnExchangeWithANumberThatIsNoRank) {
  EXPECT_EQ(rule_on_one([](Program& p) { the(p, kBody, key_hop(1)).comm->source = 4; }), "V7");
  EXPECT_EQ(rule_on_all(
                [](Program& p) { the(p, kBody, is(Op::kAllGather, Part::kNone)).comm->source = 0; },
                kGather),
            "V6");
}

TEST(VerifyV7, RefusesAnExchangeThatReceivesLess) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              the(p, kBody, key_hop(1)).find(Role::kReceived)->range.bytes /= 2;
            }),
            "V7");
}

TEST(VerifyV16, RefusesATagOfAnotherHop) {
  EXPECT_EQ(rule_on_all([](Program& p) { the(p, kBody, key_hop(1)).comm->tag += 1; }), "V16");
}

TEST(VerifyV9, RefusesARingOnTwoStreams) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              the(p, kBody, key_hop(2)).stream = Stream::kComm;
              rederive(p);
            }),
            "V9");
}

TEST(VerifyV5, RefusesAStepThatDoesNotWaitForItsKeys) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              the(p, kBody, step(Op::kForward, Part::kAttn, 1)).waits.clear();
            }),
            "V5");
}

// Results and gradients
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesStepsThatAreMergedInAnotherOrder) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              auto& first = the(p, kBody, step(Op::kForward, Part::kAttn, 1));
              auto& second = the(p, kBody, step(Op::kForward, Part::kAttn, 2));
              std::swap(first.chunk, second.chunk);
            }),
            "V16");
}

TEST(VerifyV16, RefusesAStepThatForgetsTheOnesBefore) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              the(p, kBody, step(Op::kForward, Part::kAttn, 1)).find(Role::kY)->access =
                  Access::kWrite;
            }),
            "V16");
}

TEST(VerifyV1, RefusesAStepThatIsLeftOutOrRepeated) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, step(Op::kForward, Part::kAttn, 2)); }),
            "V1");
  EXPECT_EQ(
      rule_on_all([](Program& p) { duplicate(p, kBody, step(Op::kBackward, Part::kAttn, 2)); }),
      "V1");
  EXPECT_EQ(
      rule_on_all([](Program& p) { the(p, kBody, step(Op::kForward, Part::kAttn, 2)).chunk = 4; }),
      "V1");
}

TEST(VerifyV16, RefusesGradientsThatARankDoesNotAddTo) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, step(Op::kAdd, Part::kRingDkv, 2)); }),
            "V16");
}

TEST(VerifyV16, RefusesGradientsThatARankAddsToTwice) {
  EXPECT_EQ(rule_on_all([](Program& p) { duplicate(p, kBody, step(Op::kAdd, Part::kRingDkv, 2)); }),
            "V16");
}

TEST(VerifyV16, RefusesGradientsThatDoNotComeHome) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, gradient_hop(4)); }), "V16");
}

TEST(VerifyV16, RefusesGradientsOfAnotherRanksKeys) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              const Range away = the(p, kBody, gradient_hop(4)).find(Role::kData)->range;
              Instruction& rope = the(p, kBody, is(Op::kBackward, Part::kRope, 0));
              const Range dk = rope.find(Role::kDk)->range;
              rope.find(Role::kDk)->range = {away.buffer, 0, dk.bytes};
              rederive(p);
            }),
            "V16");
}

TEST(VerifyV13, RefusesASumInBf16) {
  BuildRequest request = small_request({.cp = 2}, {.seq = 8, .global_batch = 2});
  request.compute = DType::kBf16;
  Programs programs = all_ranks(request);
  EXPECT_EQ(broken(programs), "");
  for (Program& p : programs) {
    const Range y = the(p, "micro.first", step(Op::kForward, Part::kAttn, 0)).find(Role::kY)->range;
    p.buffers[static_cast<std::size_t>(y.buffer)].dtype = DType::kBf16;
  }
  EXPECT_EQ(broken(programs), "V13");
}

TEST(VerifyV13, RefusesACopyOfAnotherSize) {
  BuildRequest request = small_request({.cp = 2}, {.seq = 8, .global_batch = 2});
  request.compute = DType::kBf16;
  EXPECT_EQ(broken(changed(all_ranks(request),
                           [](Program& p) {
                             the(p, "micro.first", is(Op::kCopy)).find(Role::kX)->range.bytes -= 4;
                           })),
            "V13");
}

// All keys at once
// --------------------------------------------------------------------------------------------------

Match gathers(const Program& program, Op op) {
  return [&program, op](const Instruction& i) {
    return i.op == op && i.comm && i.comm->group == "cp" &&
           program.buffer(i.uses.front().range.buffer).kind == MemoryKind::kActivations;
  };
}

TEST(VerifyV2, RefusesKeysThatAreNotGathered) {
  EXPECT_EQ(rule_on_all([](Program& p) { drop(p, kBody, gathers(p, Op::kAllGather)); }, kGather),
            "V2");
}

TEST(VerifyV16, RefusesGatheredValuesForKeys) {
  EXPECT_EQ(rule_on_all(
                [](Program& p) {
                  Instruction& gather = the(p, kBody, gathers(p, Op::kAllGather));
                  Range& own = gather.find(Role::kShard)->range;
                  own.offset += own.bytes;
                  rederive(p);
                },
                kGather),
            "V16");
}

TEST(VerifyV2, RefusesGradientsThatAreNotSummed) {
  EXPECT_EQ(
      rule_on_all([](Program& p) { drop(p, kBody, gathers(p, Op::kReduceScatter)); }, kGather),
      "V2");
}

// Replicas
// --------------------------------------------------------------------------------------------------

TEST(VerifyV18, RefusesARankThatDoesMore) {
  EXPECT_EQ(rule_on_one([](Program& p) {
              body(p, kBody).push_back(make(
                  Op::kCopy, {{Role::kX, Access::kRead, p.whole(*p.find_buffer("L0.attn"))},
                              {Role::kY, Access::kWrite, p.whole(*p.find_buffer("d_L0.attn"))}}));
              rederive(p);
            }),
            "V18");
}

TEST(VerifyV6, RefusesGradientsThatAreSummedOverDpAlone) {
  const Layout layout{.dp = 2, .cp = 2};
  EXPECT_EQ(broken(changed(trained(layout, 2, even_llama()),
                           [](Program& p) {
                             for (Template& item : p.templates) {
                               for (Instruction& i : item.instructions) {
                                 if (i.comm && i.comm->group == "dp_cp") i.comm->group = "dp";
                               }
                             }
                           })),
            "V6");
}

TEST(VerifyV10, RefusesGradientsThatAreSummedOverNoRank) {
  EXPECT_EQ(rule_on_all([](Program& p) {
              drop(p, "reduce", moves(p, Op::kAllReduce, MemoryKind::kGradients));
            }),
            "V10");
}

// Deadlock
// --------------------------------------------------------------------------------------------------

/// What an EXCHANGE is for: all ranks of a ring send first, and nobody receives.
TEST(VerifyV8, RefusesARingOfMessagesOneAfterTheOther) {
  const Programs programs = changed(ring(), [](Program& p) {
    for (Template& item : p.templates) {
      std::vector<Instruction> all;
      for (Instruction& i : item.instructions) {
        if (i.op != Op::kExchange) {
          all.push_back(std::move(i));
          continue;
        }
        Instruction send = i, receive = i;
        send.op = Op::kSend;
        send.uses = {*i.find(Role::kData)};
        receive.op = Op::kRecv;
        receive.uses = {*i.find(Role::kReceived)};
        receive.comm->peer = i.comm->source;
        send.comm->source = receive.comm->source = -1;
        all.push_back(std::move(send));
        all.push_back(std::move(receive));
      }
      item.instructions = std::move(all);
    }
    rederive(p);
  });
  const auto violation = check_deadlock(programs, DeadlockMode::kPerStream);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rule, "V8");
  EXPECT_EQ(fault(check_deadlock(ring(), DeadlockMode::kPerStream)), "");
  EXPECT_EQ(fault(check_deadlock(ring(), DeadlockMode::kBlocking)), "");
}

}  // namespace
}  // namespace trireme::mutation
