#include "trireme/cost/workload.h"

#include <gtest/gtest.h>

#include "trireme/cost/known_models.h"

namespace trireme {
namespace {

TEST(Workload, AShapeOfTheLlamaFamilyComesBackFromItsSpec) {
  const ModelShape shape = *known_model("llama-3-8b");
  EXPECT_EQ(shape_of(resolved(spec_of(shape))), shape);
}

TEST(Workload, AShapeOfTheGpt2FamilyComesBackFromItsSpec) {
  const ModelShape shape = *known_model("gpt2");
  EXPECT_EQ(shape_of(resolved(spec_of(shape))), shape);
}

TEST(Workload, WhatAShapeDoesNotTellIsThatOfTheRest) {
  const ModelSpec qwen = *known_spec("qwen2.5-0.5b");
  EXPECT_EQ(spec_of(shape_of(qwen), qwen), qwen);
}

TEST(Workload, PositionsOfAShapeAreTheLongestSequence) {
  ModelShape shape = *known_model("gpt2");
  shape.positions = 2048;
  EXPECT_EQ(spec_of(shape, *known_spec("gpt2")).max_seq, 2048);
}

}  // namespace
}  // namespace trireme
