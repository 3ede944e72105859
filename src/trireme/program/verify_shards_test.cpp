// Mutants of layers cut over ranks: sums over tp, sharded head, sequence parallelism, gradients and
// norm.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

// Copies of shards
// --------------------------------------------------------------------------------------------------

/// Two copies of two shards each.
Programs hybrid() {
  return trained({.dp = 4, .zero = 1, .dp_shard = 2});
}

TEST(VerifyV10, RefusesAShardThatIsNotSummedOverItsCopies) {
  ASSERT_EQ(fault(verify(hybrid())), "");
  EXPECT_EQ(
      broken(changed(hybrid(),
                     [](Program& p) { drop(p, "reduce", moves(p, Op::kAllReduce, "grads.0")); })),
      "V10");
}

TEST(VerifyV10, RefusesAScatterOverTheCopies) {
  EXPECT_EQ(broken(changed(hybrid(),
                           [](Program& p) {
                             the(p, "reduce", moves(p, Op::kReduceScatter, "grads.0")).comm->group =
                                 "dp_replicate";
                           })),
            "V10");
}

// Sums over tp
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesAProductOfPartsThatIsNotSummed) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop_behind(p, "micro.next", is(Op::kForward, Part::kProj, 1),
                                         Op::kAllReduce);
                           })),
            "V16");
}

TEST(VerifyV16, RefusesAnInputGradientThatIsNotSummed) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop_behind(p, "micro.next", is(Op::kBackwardInput, Part::kQkv, 1),
                                         Op::kAllReduce);
                           })),
            "V16");
}

TEST(VerifyV16, RefusesAnEmbeddingThatIsNotSummed) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop_behind(p, "micro.next", is(Op::kForward, Part::kEmbed),
                                         Op::kAllReduce);
                           })),
            "V16");
}

TEST(VerifyV16, RefusesASumOverTpThatRunsTwice) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             duplicate(p, "micro.next", moves(p, Op::kAllReduce, "L1.proj"));
                           })),
            "V16");
}

TEST(VerifyV6, RefusesASumThatOneRankOfTpLacks) {
  Programs programs = tensor();
  drop_behind(programs[1], "micro.next", is(Op::kForward, Part::kProj, 1), Op::kAllReduce);
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV16, RefusesASumOverDpInsteadOfTp) {
  EXPECT_EQ(broken(changed(trained({.dp = 2, .tp = 2}, 2, even_gpt2()),
                           [](Program& p) {
                             Instruction& sum =
                                 the(p, "micro.next", moves(p, Op::kAllReduce, "L1.proj"));
                             sum.comm->group = "dp";
                             sum.stream = Stream::kComm;
                             rederive(p);
                           })),
            "V16");
}

TEST(VerifyV5, RefusesASumThatDoesNotWaitForItsProduct) {
  EXPECT_EQ(
      broken(changed(tensor(),
                     [](Program& p) {
                       the(p, "micro.next", moves(p, Op::kAllReduce, "L1.proj")).waits.clear();
                     })),
      "V5");
}

TEST(VerifyV16, RefusesARowBiasThatIsAddedBeforeTheSum) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             auto& instructions = body(p, "micro.next");
                             const std::size_t sum =
                                 find(p, "micro.next", moves(p, Op::kAllReduce, "L1.proj"));
                             ASSERT_EQ(instructions[sum + 1].part, Part::kRowBias);
                             std::swap(instructions[sum], instructions[sum + 1]);
                             rederive(p);
                           })),
            "V16");
}

TEST(VerifyV1, RefusesARowBiasThatIsMissing) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop_behind(p, "micro.next", moves(p, Op::kAllReduce, "L1.proj"),
                                         Op::kForward);
                           })),
            "V1");
}

TEST(VerifyV16, RefusesTheRowBiasOfAnotherLayer) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             const auto bias = [&](int layer) -> Range& {
                               return the(p, "micro.next", is(Op::kForward, Part::kRowBias, layer))
                                   .find(Role::kBias)
                                   ->range;
                             };
                             bias(1) = bias(0);
                             rederive(p);
                           })),
            "V16");
}

TEST(VerifyV16, RefusesPositionsThatAreAddedBeforeTheSum) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             auto& instructions = body(p, "micro.next");
                             const std::size_t position =
                                 find(p, "micro.next", is(Op::kForward, Part::kPosition));
                             std::swap(instructions[position], instructions[position - 1]);
                             rederive(p);
                           })),
            "V16");
}

// Head over a sharded vocabulary
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesMaximumAndSumThatAreExchanged) {
  EXPECT_EQ(
      broken(changed(tensor(),
                     [](Program& p) {
                       for (const char* const name : {"head.row_max", "head.sums"}) {
                         bool& is_max =
                             the(p, "micro.next", moves(p, Op::kAllReduce, name)).comm->is_max;
                         is_max = !is_max;
                       }
                     })),
      "V16");
}

TEST(VerifyV6, RefusesAMaximumThatMeetsASum) {
  Programs programs = tensor();
  the(programs[1], "micro.next", moves(programs[1], Op::kAllReduce, "head.row_max")).comm->is_max =
      false;
  EXPECT_EQ(broken(programs), "V6");
}

TEST(VerifyV16, RefusesAMaximumOfOneRanksVocabulary) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop(p, "micro.next", moves(p, Op::kAllReduce, "head.row_max"));
                           })),
            "V16");
}

TEST(VerifyV16, RefusesExponentialsOfOneRanksVocabulary) {
  EXPECT_EQ(broken(changed(
                tensor(),
                [](Program& p) { drop(p, "micro.next", moves(p, Op::kAllReduce, "head.sums")); })),
            "V16");
}

TEST(VerifyV16, RefusesAGradientOfOneRanksVocabulary) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             drop(p, "micro.next", moves(p, Op::kAllReduce, "d_final_norm"));
                           })),
            "V16");
}

Match of_chunk(Part part, int chunk) {
  return [=](const Instruction& i) { return i.part == part && i.chunk == chunk; };
}

TEST(VerifyV1, RefusesAChunkOfTheHeadThatIsMissing) {
  EXPECT_EQ(broken(changed(chunked(),
                           [](Program& p) {
                             std::erase_if(body(p, "micro.first"),
                                           [](const Instruction& i) { return i.chunk == 1; });
                             rederive(p);
                           })),
            "V1");
}

TEST(VerifyV1, RefusesAChunkOfTheHeadThatRunsTwice) {
  EXPECT_EQ(broken(changed(
                chunked(),
                [](Program& p) { duplicate(p, "micro.first", of_chunk(Part::kHeadLoss, 1)); })),
            "V1");
}

TEST(VerifyV16, RefusesAChunkWithTheRowsOfAnother) {
  EXPECT_EQ(
      broken(changed(
          chunked(),
          [](Program& p) {
            the(p, "micro.first", of_chunk(Part::kHeadLogits, 1)).find(Role::kX)->range.offset = 0;
            rederive(p);
          })),
      "V16");
}

TEST(VerifyV4, RefusesGradientsOfAChunkInTheRowsOfAnother) {
  EXPECT_EQ(
      broken(changed(
          chunked(),
          [](Program& p) {
            the(p, "micro.first", of_chunk(Part::kHeadLoss, 1)).find(Role::kDx)->range.offset = 0;
            rederive(p);
          })),
      "V4");  // the rows of chunk 1 are never written
}

TEST(VerifyV10, RefusesAChunkThatForgetsTheGradientOfTheOneBefore) {
  EXPECT_EQ(broken(changed(
                chunked(),
                [](Program& p) {
                  the(p, "micro.first", of_chunk(Part::kHeadLoss, 1)).find(Role::kDWeight)->access =
                      Access::kWrite;
                })),
            "V10");
}

// Sequence parallelism
// --------------------------------------------------------------------------------------------------

TEST(VerifyV2, RefusesAProductWithoutAGatherOfItsInput) {
  EXPECT_EQ(broken(changed(tensor(kSequence),
                           [](Program& p) {
                             drop_behind(p, "micro.first", is(Op::kForward, Part::kAttnNorm, 1),
                                         Op::kAllGather);
                           })),
            "V2");
}

TEST(VerifyV16, RefusesAProductOfTheRanksOwnTokens) {
  EXPECT_EQ(
      broken(changed(
          tensor(kSequence),
          [](Program& p) {
            const Range own =
                the(p, "micro.next", is(Op::kForward, Part::kAttnNorm, 1)).find(Role::kY)->range;
            the(p, "micro.next", is(Op::kForward, Part::kQkv, 1)).find(Role::kX)->range = own;
            rederive(p);
          })),
      "V16");
}

TEST(VerifyV4, RefusesABiasOnTokensThatNoSumHasScattered) {
  EXPECT_EQ(broken(changed(tensor(kSequence),
                           [](Program& p) {
                             drop_behind(p, "micro.first", is(Op::kForward, Part::kProj, 1),
                                         Op::kReduceScatter);
                           })),
            "V4");
}

TEST(VerifyV16, RefusesOwnTokensThatAreCopiedInsteadOfSummed) {
  EXPECT_EQ(
      broken(changed(
          tensor(kSequence),
          [](Program& p) {
            Instruction& scatter =
                body(p, "micro.next")[find(p, "micro.next", is(Op::kForward, Part::kProj, 1)) + 1];
            Range part = scatter.find(Role::kData)->range;
            const Range own = scatter.find(Role::kShard)->range;
            part.bytes = own.bytes;
            scatter =
                make(Op::kCopy, {{Role::kX, Access::kRead, part}, {Role::kY, Access::kWrite, own}});
            rederive(p);
          })),
      "V16");
}

TEST(VerifyV16, RefusesAWeightGradientOfAnotherLayersGatheredInput) {
  EXPECT_EQ(broken(changed(tensor(kSequence),
                           [](Program& p) {
                             Instruction& product =
                                 the(p, "micro.next", is(Op::kBackwardInput, Part::kMlpUp, 0));
                             Instruction& gather = *std::prev(std::find_if(
                                 body(p, "micro.next").begin(), body(p, "micro.next").end(),
                                 [&](const Instruction& i) { return &i == &product; }));
                             ASSERT_EQ(gather.op, Op::kAllGather);
                             gather.find(Role::kShard)->range =
                                 p.whole(*p.find_buffer("L0.attn_norm"));
                             rederive(p);
                           })),
            "V16");
}

// Gradients of replicas
// --------------------------------------------------------------------------------------------------

Match sums_row(const Program& program, ParameterRole role) {
  const auto row = ParameterTable(program.request.spec).find(role, 0);
  TRI_CHECK(row.has_value());
  const Range gradient = program.parameters.at(*row).gradient;
  return [gradient](const Instruction& i) {
    return i.op == Op::kAllReduce && i.find(Role::kData)->range == gradient;
  };
}

TEST(VerifyV10, RefusesANormGradientOfTheRanksOwnTokens) {
  EXPECT_EQ(broken(changed(
                tensor(kSequence),
                [](Program& p) { drop(p, "reduce", sums_row(p, ParameterRole::kMlpNormWeight)); })),
            "V10");
}

/// Sums the whole gradient of a row of layer 0 over tp.
void sum_over_tp(Program& program, ParameterRole role) {
  const auto row = ParameterTable(program.request.spec).find(role, 0);
  TRI_CHECK(row.has_value());
  body(program, "reduce").push_back(sum_of_gradient(program, *row, "tp"));
  rederive(program);
}

TEST(VerifyV10, RefusesASumOfRowBiasGradientsOfAllTokens) {
  EXPECT_EQ(broken(changed(tensor(kSequence),
                           [](Program& p) { sum_over_tp(p, ParameterRole::kProjBias); })),
            "V10");
}

TEST(VerifyV10, RefusesAQueryNormGradientOfTheRanksOwnHeads) {
  EXPECT_EQ(broken(changed(
                trained(kTensor, 2, even_qwen()),
                [](Program& p) { drop(p, "reduce", sums_row(p, ParameterRole::kQNormWeight)); })),
            "V10");
}

TEST(VerifyV10, RefusesTheSumOfTwoShardsOfAWeight) {
  EXPECT_EQ(broken(changed(trained(kTensor, 2, even_qwen()),
                           [](Program& p) { sum_over_tp(p, ParameterRole::kQkvWeight); })),
            "V10");
}

TEST(VerifyV10, RefusesATiedTableThatFirstAndLastStageUpdateEachForItself) {
  EXPECT_EQ(broken(changed(trained(kPipe, 3, even_qwen()),
                           [](Program& p) {
                             body(p, "reduce").clear();
                             rederive(p);
                           })),
            "V10");
}

TEST(VerifyV10, RefusesATiedTableThatIsSummedBeforeTheLastMicroBatch) {
  Programs programs = trained(kPipe, 3, even_qwen());
  for (const auto& [rank, last] : {std::pair(0, "S0.B.next"), std::pair(1, "S1.B.next")}) {
    Program& program = programs[static_cast<std::size_t>(rank)];
    const auto begin = program.calls.begin();
    std::rotate(begin + static_cast<std::ptrdiff_t>(find_call(program, last, 2)),
                begin + static_cast<std::ptrdiff_t>(find_call(program, "reduce")),
                begin + static_cast<std::ptrdiff_t>(find_call(program, "reduce")) + 1);
    rederive(program);
  }
  EXPECT_EQ(broken(programs), "V10");
}

TEST(VerifyV10, RefusesMirrorsThatUpdateEachForItself) {
  EXPECT_EQ(broken(changed(trained(kMirrored, 4, even_llama()),
                           [](Program& p) { drop(p, "reduce", is(Op::kAllReduce)); })),
            "V10");
}

TEST(VerifyV10, RefusesTheMaximumOfGradients) {
  EXPECT_EQ(
      broken(changed(trained(kTensor, 2, even_qwen()),
                     [](Program& p) { the(p, "reduce", is(Op::kAllReduce)).comm->is_max = true; })),
      "V10");
}

TEST(VerifyV6, RefusesTheMaximumOfAReduceScatter) {
  EXPECT_EQ(broken(changed(tensor(kSequence),
                           [](Program& p) {
                             the(p, "micro.next", is(Op::kReduceScatter)).comm->is_max = true;
                           })),
            "V6");
}

TEST(VerifyV6, RefusesACollectiveWithATag) {
  EXPECT_EQ(
      broken(changed(tensor(),
                     [](Program& p) { the(p, "micro.next", is(Op::kAllReduce)).comm->tag = 7; })),
      "V6");
}

TEST(VerifyV16, RefusesARotationWithoutItsTable) {
  EXPECT_EQ(broken(changed(trained(kTensor, 2, even_qwen()),
                           [](Program& p) {
                             Instruction& rope =
                                 the(p, "micro.next", is(Op::kForward, Part::kRope, 1));
                             rope.find(Role::kCos)->range = rope.find(Role::kSin)->range;
                             rederive(p);
                           })),
            "V16");
}

// Accesses
// --------------------------------------------------------------------------------------------------

TEST(VerifyV16, RefusesAFirstGradientOfTheStreamThatIsAddedToALeftOne) {
  EXPECT_EQ(broken(changed(
                piped(),
                [](Program& p) {
                  if (!p.find_template("S1.B.next")) return;
                  the(p, "S1.B.next", is(Op::kBackward, Part::kFinalNorm)).find(Role::kDh)->access =
                      Access::kReadWrite;
                })),
            "V16");
}

TEST(VerifyV16, RefusesAGradientThatIsChangedInPlace) {
  EXPECT_EQ(broken(changed(trained(kTensor, 2, even_qwen()),
                           [](Program& p) {
                             the(p, "micro.next", is(Op::kBackwardWeight, Part::kMlpUp, 0))
                                 .find(Role::kDWeight)
                                 ->access = Access::kReadWrite;
                           })),
            "V16");
}

TEST(VerifyV16, RefusesACopyThatDoesNotSayThatItWrites) {
  Programs programs = piped(kSplit);
  the(programs[0], "S0.I.next", is(Op::kCopy)).find(Role::kY)->access = Access::kRead;
  EXPECT_EQ(broken(programs), "V16");
}

TEST(VerifyV16, RefusesABiasThatDoesNotSayThatItWrites) {
  EXPECT_EQ(broken(changed(
                tensor(),
                [](Program& p) {
                  the(p, "micro.next", is(Op::kForward, Part::kRowBias, 1)).find(Role::kY)->access =
                      Access::kRead;
                })),
            "V16");
}

TEST(VerifyV16, RefusesAnUpdateThatWritesItsGradient) {
  EXPECT_EQ(broken(changed(piped(),
                           [](Program& p) {
                             the(p, "end", is(Op::kOptStep)).find(Role::kGradient)->access =
                                 Access::kReadWrite;
                           })),
            "V16");
}

TEST(VerifyV16, RefusesAnInputThatIsChangedInPlace) {
  EXPECT_EQ(broken(changed(
                tensor(),
                [](Program& p) {
                  the(p, "micro.next", is(Op::kBackward, Part::kAct, 0)).find(Role::kX)->access =
                      Access::kReadWrite;
                })),
            "V16");
}

// Norm and loss
// --------------------------------------------------------------------------------------------------

/// Adds the gradient of a row to the norm, before the norm is summed.
void count_in_norm(Program& program, ParameterRole role) {
  const auto row = ParameterTable(program.request.spec).find(role);
  TRI_CHECK(row.has_value() && program.holds(*row));
  Instruction square = make(
      Op::kNormSquare,
      {{Role::kX, Access::kRead, program.parameters[*row].gradient},
       {Role::kNormSquare, Access::kAccumulate, program.whole(*program.find_buffer("norm_sq"))}});
  square.parameter = static_cast<int>(*row);
  auto& end = body(program, "end");
  end.insert(end.begin(), square);
  rederive(program);
}

TEST(VerifyV15, RefusesAReplicatedWeightInTheNormOfEachTpRank) {
  Programs programs = trained(kTensor, 2, even_llama());
  count_in_norm(programs[1], ParameterRole::kFinalNormWeight);
  EXPECT_EQ(broken(programs), "V15");
}

TEST(VerifyV15, RefusesAReplicatedWeightInTheNormOfNoTpRank) {
  Programs programs = trained(kTensor, 2, even_llama());
  drop(programs[0], "end", is(Op::kNormSquare));  // of the final norm, complete before all others
  EXPECT_EQ(broken(programs), "V15");
}

TEST(VerifyV15, RefusesATiedTableInTheNormOfBothStages) {
  Programs programs = trained(kPipe, 3, even_qwen());
  count_in_norm(programs[1], ParameterRole::kTokenTable);
  EXPECT_EQ(broken(programs), "V15");
}

TEST(VerifyV15, RefusesMirrorsThatBothCountInTheNorm) {
  Programs programs = trained(kMirrored, 4, even_llama());
  count_in_norm(programs[1], ParameterRole::kFinalNormWeight);
  EXPECT_EQ(broken(programs), "V15");
}

TEST(VerifyV15, RefusesANormOfOneStage) {
  EXPECT_EQ(broken(changed(
                piped(), [](Program& p) { drop(p, "end", moves(p, Op::kAllReduce, "norm_sq")); })),
            "V15");
}

TEST(VerifyV15, RefusesANormOfOneTpRank) {
  EXPECT_EQ(broken(changed(
                tensor(), [](Program& p) { drop(p, "end", moves(p, Op::kAllReduce, "norm_sq")); })),
            "V15");
}

TEST(VerifyV15, RefusesANormOverDpWhereEachReplicaHasAllOfIt) {
  EXPECT_EQ(broken(changed(trained({.dp = 2, .tp = 2}, 2, even_gpt2()),
                           [](Program& p) {
                             auto& end = body(p, "end");
                             const std::size_t sum =
                                 find(p, "end", moves(p, Op::kAllReduce, "norm_sq"));
                             end.insert(end.begin() + static_cast<std::ptrdiff_t>(sum),
                                        all_reduce(p, end[sum].find(Role::kData)->range, "dp"));
                             rederive(p);
                           })),
            "V15");
}

TEST(VerifyV14, RefusesALossThatOnlyTheLastStageKnows) {
  EXPECT_EQ(broken(changed(piped(),
                           [](Program& p) { drop(p, "end", moves(p, Op::kAllReduce, "loss")); })),
            "V14");
}

TEST(VerifyV15, RefusesAClipByTheLossWhereAStageHasNone) {
  Programs programs = piped();
  Instruction& clip = the(programs[0], "end", is(Op::kClip));
  clip.find(Role::kNormSquare)->range = clip.find(Role::kLoss)->range;
  EXPECT_EQ(broken(programs), "V15");
}

TEST(VerifyV14, RefusesAnUpdateWithoutALearningRate) {
  EXPECT_EQ(broken(changed(piped(),
                           [](Program& p) {
                             std::erase_if(the(p, "end", is(Op::kOptStep)).uses,
                                           [](const Use& use) { return use.role == Role::kHyper; });
                           })),
            "V14");
}

TEST(VerifyV14, RefusesALossThatTpRanksCountTwice) {
  EXPECT_EQ(broken(changed(tensor(),
                           [](Program& p) {
                             auto& end = body(p, "end");
                             end.insert(end.begin(),
                                        all_reduce(p, p.whole(*p.find_buffer("loss")), "tp"));
                             rederive(p);
                           })),
            "V14");
}

}  // namespace
}  // namespace trireme::mutation
