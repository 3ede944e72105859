// Mutants that break what ranks owe each other (V6, V7) or memory (V13).
#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/program/roots.h"
#include "trireme/program/verify_step.h"
#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

// V6, V7
// --------------------------------------------------------------------------------------------------

TEST(VerifyV6, RefusesAnAllReduceThatMeetsAReduceScatter) {
  Programs programs = trained(kSharded);
  Instruction& scatter =
      the(programs[1], "reduce", moves(programs[1], Op::kReduceScatter, MemoryKind::kGradients));
  scatter.op = Op::kAllReduce;
  scatter.uses = {{Role::kData, Access::kReadWrite, scatter.uses[0].range}};
  rederive(programs[1]);
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV6, RefusesCollectivesInAnotherOrder) {
  Programs programs = trained({.dp = 2, .dp_sync = DpSync::kBucketed, .bucket_mib = 0.001});
  auto& reductions = body(programs[0], "reduce");
  ASSERT_NE(reductions[0].comm->elems, reductions[1].comm->elems);
  std::swap(reductions[0], reductions[1]);
  rederive(programs[0]);
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV6, RefusesACollectiveThatOneRankLacks) {
  Programs programs = trained(kTwoRanks);
  drop(programs[0], "end", moves(programs[0], Op::kAllReduce, "loss"));
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV6, RefusesElementsThatAreNotTheOperands) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) { the(p, "end", is(Op::kAllReduce)).comm->elems += 1; })),
            "V6");
}

TEST(VerifyV6, RefusesGradientsThatTravelInAnotherTypeThanTheRequests) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             for (Template& item : p.templates) {
                               for (Instruction& i : item.instructions) {
                                 if (i.comm && i.comm->dtype == DType::kF32)
                                   i.comm->dtype = DType::kBf16;
                               }
                             }
                           })),
            "V6");
}

TEST(VerifyV9, RefusesACommunicatorOnTwoStreams) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             the(p, "end", is(Op::kAllReduce)).stream = Stream::kCompute;
                             rederive(p);
                           })),
            "V9");
}

TEST(VerifyV6, RefusesAnUnknownCommunicator) {
  EXPECT_EQ(
      broken(changed(trained(kTwoRanks),
                     [](Program& p) { the(p, "end", is(Op::kAllReduce)).comm->group = "x"; })),
      "V6");
}

/// Exchanges the places of two parameters of one bucket, with gradients and moments.
void exchange(Program& program, std::size_t a, std::size_t b) {
  const std::int64_t first = program.parameters[a].parameter.offset;
  const std::int64_t second = program.parameters[b].parameter.offset;
  const std::int64_t bytes = program.parameters[a].parameter.bytes;
  TRI_CHECK(program.parameters[b].parameter.bytes == bytes);
  const auto moved = [&](Range& range) {
    const bool is_root = program.buffer(range.buffer).name.ends_with(".0");
    if (!is_root || range.bytes != bytes) return;
    if (range.offset == first) {
      range.offset = second;
    } else if (range.offset == second) {
      range.offset = first;
    }
  };
  for (Template& item : program.templates) {
    for (Instruction& instruction : item.instructions) {
      for (Use& use : instruction.uses) moved(use.range);
    }
  }
  for (const std::size_t row : {a, b}) {
    moved(program.parameters[row].parameter);
    moved(program.parameters[row].gradient);
  }
  rederive(program);
}

TEST(VerifyV6, RefusesABucketThatHoldsParametersInAnotherOrder) {
  Programs programs = trained({.dp = 2});
  exchange(programs[1], 1, 7);  // the first norms of both layers
  EXPECT_EQ(broken({programs[1]}), "");
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV6, RefusesAReductionThatMeetsAnotherBuffer) {
  Programs programs = trained(kTwoRanks);
  const BufferId other = programs[1].add_buffer({.name = "other",
                                                 .kind = MemoryKind::kWorkspace,
                                                 .content = Content::kState,
                                                 .dtype = DType::kF64,
                                                 .bytes = 8});
  the(programs[1], "end", moves(programs[1], Op::kAllReduce, "loss"))
      .find(Role::kData)
      ->range.buffer = other;
  rederive(programs[1]);
  EXPECT_EQ(broken(programs), "V6");
}

/// Rank 0 sends its loss to rank 1.
Programs with_message() {
  Programs programs = trained(kTwoRanks);
  const Op ops[] = {Op::kSend, Op::kRecv};
  for (std::size_t p = 0; p < 2; ++p) {
    const BufferId inbox = programs[p].add_buffer({.name = "message",
                                                   .kind = MemoryKind::kCommunication,
                                                   .content = Content::kStep,
                                                   .dtype = DType::kF64,
                                                   .bytes = 8});
    const Range loss = programs[p].whole(*programs[p].find_buffer("loss"));
    Instruction message =
        p == 0 ? make(ops[p], {{Role::kData, Access::kRead, loss}})
               : make(ops[p], {{Role::kData, Access::kWrite, programs[p].whole(inbox)}});
    message.stream = Stream::kComm;
    message.comm =
        Comm{.group = "dp", .dtype = DType::kF64, .elems = 1, .peer = p == 0 ? 1 : 0, .tag = 5};
    end_of_step(programs[p]).instructions.push_back(message);
    rederive(programs[p]);
  }
  return programs;
}

TEST(VerifyV7, AcceptsAMessageThatIsReceived) {
  EXPECT_EQ(broken(with_message()), "");
}

// V8, V9
// --------------------------------------------------------------------------------------------------

/// Two ranks that send each other a message; each sends first, or the second receives first.
Programs with_exchange(bool second_receives_first) {
  Programs programs = trained(kTwoRanks);
  for (std::size_t p = 0; p < 2; ++p) {
    const BufferId inbox = programs[p].add_buffer({.name = "message",
                                                   .kind = MemoryKind::kCommunication,
                                                   .content = Content::kStep,
                                                   .dtype = DType::kF64,
                                                   .bytes = 8});
    const Range loss = programs[p].whole(*programs[p].find_buffer("loss"));
    Instruction send = make(Op::kSend, {{Role::kData, Access::kRead, loss}});
    Instruction recv = make(Op::kRecv, {{Role::kData, Access::kWrite, programs[p].whole(inbox)}});
    for (Instruction* message : {&send, &recv}) {
      message->stream = Stream::kComm;
      message->comm =
          Comm{.group = "dp", .dtype = DType::kF64, .elems = 1, .peer = p == 0 ? 1 : 0, .tag = 5};
    }
    auto& end = end_of_step(programs[p]).instructions;
    const bool receives_first = p == 1 && second_receives_first;
    end.push_back(receives_first ? recv : send);
    end.push_back(receives_first ? send : recv);
    rederive(programs[p]);
  }
  return programs;
}

TEST(VerifyV8, RefusesTwoSendsThatFaceEachOtherAndNamesBoth) {
  EXPECT_EQ(broken(with_exchange(true)), "");
  const auto violation = verify(with_exchange(false));
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rule, "V8");
  EXPECT_NE(violation->message.find("rank 0 at 'SEND"), std::string::npos) << violation->message;
  EXPECT_NE(violation->message.find("rank 1 at 'SEND"), std::string::npos) << violation->message;
}

TEST(VerifyV8, StreamsOfTheirOwnHelpOnlyWhereTheyRunSideBySide) {
  Programs programs = with_exchange(false);
  for (Program& program : programs) {
    Instruction& recv = end_of_step(program).instructions.back();
    recv.stream = Stream::kPipe;
    rederive(program);
  }
  EXPECT_EQ(check_deadlock(programs, DeadlockMode::kPerStream), std::nullopt);
  EXPECT_TRUE(check_deadlock(programs, DeadlockMode::kDeviceSerial).has_value());
  EXPECT_TRUE(check_deadlock(programs, DeadlockMode::kBlocking).has_value());
}

TEST(VerifyV7, RefusesAnotherTag) {
  Programs programs = with_message();
  body(programs[1], "end").back().comm->tag = 6;
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV7, RefusesAMessageThatNobodyReceives) {
  Programs programs = with_message();
  drop(programs[1], "end", is(Op::kRecv));
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV7, RefusesAReceiptThatNobodySends) {
  Programs programs = with_message();
  drop(programs[0], "end", is(Op::kSend));
  EXPECT_EQ(broken(programs), "V7");
}

TEST(VerifyV7, RefusesAPeerOutsideTheGroup) {
  Programs programs = with_message();
  body(programs[1], "end").back().comm->peer = 2;
  EXPECT_EQ(broken(programs), "V7");
}

// V13
// --------------------------------------------------------------------------------------------------

TEST(VerifyV13, RefusesAnOperandOutsideItsBuffer) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kForward, Part::kAct, 1)).find(Role::kY)->range.offset = 4;
          })),
      "V13");
}

TEST(VerifyV13, RefusesOperandsOfATypeThatTheirKernelDoesNotTake) {
  for (const char* const name : {"L0.qkv", "L0.lse", "tokens", "loss", "moments1.0", "params.0"}) {
    SCOPED_TRACE(name);
    EXPECT_EQ(
        broken(changed(trained(kOneRank),
                       [&](Program& p) {
                         Buffer& buffer = p.buffers[static_cast<std::size_t>(*p.find_buffer(name))];
                         buffer.dtype = buffer.dtype == DType::kF32 ? DType::kBf16 : DType::kF32;
                       })),
        "V13");
  }
}

TEST(VerifyV13, RefusesAnEmptyOperand) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kForward, Part::kAct, 1)).find(Role::kY)->range.bytes = 0;
          })),
      "V13");
}

TEST(VerifyV13, RefusesAnUnknownBuffer) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kForward, Part::kAct, 1)).find(Role::kY)->range.buffer =
                10000;
          })),
      "V13");
}

TEST(VerifyV13, RefusesHalfAnElement) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kForward, Part::kAct, 1)).find(Role::kY)->range.bytes -= 2;
          })),
      "V13");
}

TEST(VerifyV13, RefusesParametersThatOverlap) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank), [](Program& p) { p.parameters[2].parameter.offset -= 4; })),
      "V13");
}

TEST(VerifyV13, RefusesACallOfNoTemplate) {
  EXPECT_EQ(broken(changed(trained(kOneRank), [](Program& p) { p.calls[1].template_index = 99; })),
            "V13");
}

std::string broken_placement(const Program& program, const Placement& placement) {
  const auto violation = verify_placement({&program}, placement);
  return violation ? violation->rule : "";
}

TEST(VerifyPlacement, AcceptsWhatIsPlaced) {
  for (const Program& program : trained(kSharded))
    EXPECT_EQ(broken_placement(program, place({&program})), "");
}

TEST(VerifyPlacement, RefusesTwoBuffersThatAreAliveTogether) {
  const Program program = trained(kOneRank)[0];
  Placement placement = place({&program});
  auto& offsets = placement.offsets[0];
  offsets[static_cast<std::size_t>(*program.find_buffer("L0.q"))] =
      offsets[static_cast<std::size_t>(*program.find_buffer("L0.k"))];
  EXPECT_EQ(broken_placement(program, placement), "V13");
}

TEST(VerifyPlacement, RefusesATransientBufferOnParameters) {
  const Program program = trained(kOneRank)[0];
  Placement placement = place({&program});
  auto& offsets = placement.offsets[0];
  offsets[static_cast<std::size_t>(*program.find_buffer("L0.q"))] =
      offsets[static_cast<std::size_t>(*program.find_buffer("params.0"))];
  EXPECT_EQ(broken_placement(program, placement), "V13");
}

TEST(VerifyPlacement, RefusesABufferBeyondTheArena) {
  const Program program = trained(kOneRank)[0];
  Placement placement = place({&program});
  placement.arena_bytes -= 64;
  EXPECT_EQ(broken_placement(program, placement), "V13");
}

TEST(VerifyPlacement, RefusesABufferThatIsNotAligned) {
  const Program program = trained(kOneRank)[0];
  Placement placement = place({&program});
  placement.arena_bytes += 64;
  placement.offsets[0][static_cast<std::size_t>(*program.find_buffer("L0.q"))] += 4;
  EXPECT_EQ(broken_placement(program, placement), "V13");
}

/// `sent` leaves on the communication stream; `next` takes its bytes once the compute stream has
/// waited for that, if it does.
std::string broken_reuse(bool has_wait) {
  Program program;
  program.request = small_request({}, {.seq = 8});
  const auto add = [&](const char* name) {
    return program.add_buffer({.name = name,
                               .kind = MemoryKind::kActivations,
                               .content = Content::kTransient,
                               .bytes = 64});
  };
  const BufferId sent = add("sent"), next = add("next");
  Instruction write = make(Op::kZero, {{Role::kY, Access::kWrite, program.whole(sent)}});
  Instruction send = make(Op::kSend, {{Role::kData, Access::kRead, program.whole(sent)}});
  send.stream = Stream::kComm;
  send.waits = {{Stream::kCompute, 0, 0}};
  Instruction end_of_life = make(Op::kAdd, {});
  if (has_wait) end_of_life.waits = {{Stream::kComm, 0, 1}};
  end_of_life.frees = {sent};
  Instruction reuse = make(Op::kZero, {{Role::kY, Access::kWrite, program.whole(next)}});
  reuse.frees = {next};
  program.templates = {{.name = "only", .instructions = {write, send, end_of_life, reuse}}};
  program.calls = {{.template_index = 0}};
  Placement placement;
  placement.offsets = {{0, 0}};
  placement.frame_bytes = {{}};
  placement.arena_bytes = 64;
  return broken_placement(program, placement);
}

TEST(VerifyPlacement, AcceptsReuseAfterAWaitForTheOtherStream) {
  EXPECT_EQ(broken_reuse(true), "");
}

TEST(VerifyPlacement, RefusesReuseWhileTheOtherStreamMayStillRead) {
  EXPECT_EQ(broken_reuse(false), "V13");
}

// V15 across ranks: what each rank's own rules would refuse first, checked by itself
// --------------------------------------------------------------------------------------------------

std::string broken_cover(const Programs& programs) {
  const auto violation = check_norm_cover(programs);
  return violation ? violation->rule : "";
}

TEST(VerifyNormCover, AcceptsShardsThatTileEachParameter) {
  EXPECT_EQ(broken_cover(trained(kSharded)), "");
}

TEST(VerifyNormCover, RefusesTheSameShardOnTwoRanks) {
  Programs programs = trained(kSharded);
  programs[1] = programs[0];
  EXPECT_EQ(broken_cover(programs), "V15");
}

TEST(VerifyNormCover, RefusesAShardThatNoRankCounts) {
  Programs programs = trained(kSharded);
  drop(programs[1], "end", is(Op::kNormSquare));
  EXPECT_EQ(broken_cover(programs), "V15");
}

}  // namespace
}  // namespace trireme::mutation
