// What must verify, and mutants that break structure or order: V1 to V5.
#include <algorithm>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/program/roots.h"
#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

// What must pass
// --------------------------------------------------------------------------------------------------

TEST(Verify, AcceptsWhatIsBuilt) {
  for (const Layout& layout : {kOneRank, kTwoRanks, kSharded}) {
    EXPECT_EQ(broken(trained(layout)), "");
    EXPECT_EQ(broken(trained(layout, 3, small_gpt2())), "");
  }
}

TEST(Verify, AcceptsOneRankAlone) {
  EXPECT_EQ(broken({trained(kSharded)[1]}), "");
}

TEST(Verify, ListsEachRuleOnceWithAClaim) {
  std::set<std::string_view> names;
  for (const Rule& rule : verified_rules()) {
    EXPECT_FALSE(rule.claim.empty());
    names.insert(rule.name);
  }
  EXPECT_EQ(names.size(), verified_rules().size());
  EXPECT_EQ(names.size(), 18U);
}

TEST(Verify, NamesRankInstructionRangeFoundAndDue) {
  Programs programs = trained(kTwoRanks);
  for (Program& program : programs)
    the(program, "end", is(Op::kNormSquare)).find(Role::kX)->range.offset += 4;
  const auto violation = verify(programs);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rank, 0);
  EXPECT_EQ(violation->call, 5);
  EXPECT_EQ(violation->instruction, 1);
  EXPECT_NE(violation->message.find("NORM_SQ parameter="), std::string::npos);
  EXPECT_NE(violation->message.find("grads.0["), std::string::npos);
  EXPECT_NE(violation->message.find("found "), std::string::npos);
  EXPECT_NE(violation->message.find("due: "), std::string::npos);
  EXPECT_THROW(require_valid(violation), InternalError);
  EXPECT_NO_THROW(require_valid(std::nullopt));
}

// V1
// --------------------------------------------------------------------------------------------------

TEST(VerifyV1, RefusesAPartThatIsMissing) {
  EXPECT_EQ(broken(changed(
                trained(kOneRank),
                [](Program& p) { drop(p, "micro.next", is(Op::kBackwardWeight, Part::kQkv, 1)); })),
            "V1");
}

TEST(VerifyV1, RefusesAPartThatRunsTwice) {
  EXPECT_EQ(broken(changed(
                trained(kOneRank),
                [](Program& p) { duplicate(p, "micro.next", is(Op::kForward, Part::kMlpUp, 0)); })),
            "V1");
}

TEST(VerifyV1, RefusesAWeightGradientBeforeItsInputGradient) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             auto& instructions = body(p, "micro.first");
                             const auto at = static_cast<std::ptrdiff_t>(
                                 find(p, "micro.first", is(Op::kBackwardInput, Part::kQkv, 0)));
                             std::swap(instructions.begin()[at], instructions.begin()[at + 1]);
                             rederive(p);
                           })),
            "V1");
}

TEST(VerifyV1, RefusesAMicroBatchThatRunsTwice) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) { p.calls[2].micro_batch = p.calls[1].micro_batch; })),
            "V1");
}

TEST(VerifyV1, RefusesAMicroBatchWithoutLoad) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank), [](Program& p) { drop(p, "micro.next", is(Op::kLoad)); })),
      "V1");
}

TEST(VerifyV1, RefusesFewerMicroBatchesThanTheGlobalBatchHas) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             p.calls.erase(p.calls.begin() + 3);
                             p.num_micro_batches = 2;
                           })),
            "V1");
}

TEST(VerifyV1, RefusesALayerThatTheModelDoesNotHave) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "micro.first", is(Op::kForward, Part::kMlpUp, 1)).layer = 2;
                           })),
            "V1");
}

// V2, V3, V4
// --------------------------------------------------------------------------------------------------

TEST(VerifyV2, RefusesAReadBeforeTheWrite) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             move_behind(p, "micro.first", is(Op::kForward, Part::kMlpUp, 0),
                                         is(Op::kForward, Part::kAct, 0));
                           })),
            "V2");
}

TEST(VerifyV2, RefusesAReadOfWhatAnEarlierMicroBatchLeft) {
  EXPECT_EQ(broken(changed(
                trained(kOneRank),
                [](Program& p) {
                  auto& stats =
                      *the(p, "micro.next", is(Op::kForward, Part::kFinalNorm)).find(Role::kStats);
                  stats.range = p.whole(*p.find_buffer("inv_tokens"));
                })),
            "V2");
}

TEST(VerifyV2, RefusesAReadOfHalfAWrittenRange) {
  EXPECT_EQ(
      broken(changed(
          trained(kOneRank),
          [](Program& p) {
            the(p, "micro.first", is(Op::kForward, Part::kQkv, 0)).find(Role::kY)->range.bytes -= 4;
          })),
      "V2");
}

TEST(VerifyV2, RefusesPaddingThatIsNotZeroed) {
  EXPECT_EQ(broken(changed(trained(kSharded, 3, small_gpt2()),
                           [](Program& p) {
                             drop(p, "begin", [&](const Instruction& i) {
                               return i.op == Op::kZero && p.buffer(i.uses[0].range.buffer).kind ==
                                                               MemoryKind::kGradients;
                             });
                           })),
            "V2");
}

TEST(VerifyV3, RefusesAUseAfterTheFree) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             auto& instructions = body(p, "micro.first");
                             for (std::size_t i = 1; i < instructions.size(); ++i) {
                               if (instructions[i].frees.empty()) continue;
                               instructions[i - 1].frees.push_back(instructions[i].frees.back());
                               instructions[i].frees.pop_back();
                               return;
                             }
                           })),
            "V3");
}

TEST(VerifyV3, RefusesASecondFree) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             auto& instructions = body(p, "micro.first");
                             const auto with_free =
                                 std::find_if(instructions.begin(), instructions.end(),
                                              [](const auto& i) { return !i.frees.empty(); });
                             instructions.back().frees.push_back(with_free->frees.front());
                           })),
            "V3");
}

TEST(VerifyV3, RefusesABufferThatIsNeverFreed) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) { body(p, "micro.next").back().frees.clear(); })),
            "V3");
}

TEST(VerifyV3, RefusesTheFreeOfMemoryThatABufferKeeps) {
  EXPECT_EQ(
      broken(changed(trained(kOneRank),
                     [](Program& p) {
                       body(p, "micro.next").back().frees.push_back(*p.find_buffer("params.0"));
                     })),
      "V3");
}

TEST(VerifyV4, RefusesAnAccumulationAsFirstAccess) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             the(p, "micro.first", is(Op::kBackwardWeight, Part::kProj, 1))
                                 .find(Role::kDWeight)
                                 ->access = Access::kAccumulate;
                           })),
            "V4");
}

TEST(VerifyV4, RefusesZerosInPlaceOfTheFirstWrite) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             Use& use =
                                 *the(p, "micro.first", is(Op::kBackwardWeight, Part::kProj, 1))
                                      .find(Role::kDWeight);
                             use.access = Access::kAccumulate;
                             begin_of_step(p).instructions.push_back(
                                 make(Op::kZero, {{Role::kY, Access::kWrite, use.range}}));
                           })),
            "V4");
}

TEST(VerifyV4, RefusesALossThatDoesNotStartAtZero) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             drop(p, "begin", [&](const Instruction& i) {
                               return i.op == Op::kZero &&
                                      p.buffer(i.uses[0].range.buffer).name == "loss";
                             });
                           })),
            "V4");
}

// V5
// --------------------------------------------------------------------------------------------------

/// Mutants that lack one of the waits of rank 0, one each.
std::vector<Program> without_one_wait(const Program& program) {
  std::vector<Program> mutants;
  for (std::size_t t = 0; t < program.templates.size(); ++t) {
    for (std::size_t i = 0; i < program.templates[t].instructions.size(); ++i) {
      for (std::size_t w = 0; w < program.templates[t].instructions[i].waits.size(); ++w) {
        Program mutant = program;
        auto& waits = mutant.templates[t].instructions[i].waits;
        waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
        mutants.push_back(std::move(mutant));
      }
    }
  }
  for (std::size_t c = 0; c < program.calls.size(); ++c) {
    for (std::size_t w = 0; w < program.calls[c].waits.size(); ++w) {
      Program mutant = program;
      auto& waits = mutant.calls[c].waits;
      waits.erase(waits.begin() + static_cast<std::ptrdiff_t>(w));
      mutants.push_back(std::move(mutant));
    }
  }
  return mutants;
}

TEST(VerifyV5, RefusesEveryProgramThatLacksOneWait) {
  for (const Layout& layout : {kTwoRanks, kSharded}) {
    const auto mutants = without_one_wait(trained(layout)[0]);
    EXPECT_GT(mutants.size(), 4U);
    for (const Program& mutant : mutants) EXPECT_EQ(broken({mutant}), "V5");
  }
}

TEST(VerifyV5, RefusesAWaitForAnInstructionOfAnotherStream) {
  EXPECT_EQ(broken(changed(trained(kTwoRanks),
                           [](Program& p) {
                             the(p, "begin", is(Op::kInverse)).waits.front().instruction -= 1;
                           })),
            "V5");
}

TEST(VerifyV5, RefusesAWaitForTheFuture) {
  EXPECT_EQ(broken(changed(
                trained(kTwoRanks),
                [](Program& p) {
                  const auto at = static_cast<int>(find(p, "begin", is(Op::kInverse)));
                  the(p, "begin", is(Op::kInverse)).waits.front() = {Stream::kCompute, 0, at + 1};
                })),
            "V5");
}

TEST(VerifyV5, RefusesAnOutputOnTopOfAnInput) {
  EXPECT_EQ(broken(changed(trained(kOneRank),
                           [](Program& p) {
                             Instruction& act =
                                 the(p, "micro.first", is(Op::kForward, Part::kAct, 0));
                             act.find(Role::kY)->range = {act.find(Role::kX)->range.buffer, 0,
                                                          act.find(Role::kY)->range.bytes};
                             rederive(p);
                           })),
            "V5");
}

}  // namespace
}  // namespace trireme::mutation
