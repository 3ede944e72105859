#include "trireme/program/place.h"

#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/steps.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

constexpr std::int64_t kUnitBytes = 64;  ///< one alignment unit

/// A transient buffer of `units` that instructions first and last use.
struct Block {
  std::int64_t units;
  int first;
  int last;
};

/// One template of steps that write blocks at their first and read them at their last instruction.
Program blocks_program(const std::vector<Block>& blocks, int num_steps) {
  Program program;
  program.request = small_request({}, {.seq = 8});
  Template item{.name = "blocks", .instructions = {}};
  item.instructions.resize(static_cast<std::size_t>(num_steps), make(Op::kAdd, {}));
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const BufferId id = program.add_buffer({.name = "b" + std::to_string(b),
                                            .kind = MemoryKind::kActivations,
                                            .content = Content::kTransient,
                                            .bytes = blocks[b].units * kUnitBytes});
    auto& first = item.instructions[static_cast<std::size_t>(blocks[b].first)];
    auto& last = item.instructions[static_cast<std::size_t>(blocks[b].last)];
    first.uses.push_back({Role::kY, Access::kWrite, program.whole(id)});
    if (blocks[b].last != blocks[b].first)
      last.uses.push_back({Role::kX, Access::kRead, program.whole(id)});
    last.frees.push_back(id);
  }
  program.templates.push_back(std::move(item));
  program.calls.push_back({.template_index = 0});
  return program;
}

std::int64_t arena_units(const std::vector<Block>& blocks, int num_steps) {
  const Program program = blocks_program(blocks, num_steps);
  const Placement placement = place({&program});
  EXPECT_FALSE(verify_placement({&program}, placement).has_value());
  return placement.arena_bytes / kUnitBytes;
}

TEST(Place, GivesBytesOfTheDeadToTheLiving) {
  EXPECT_EQ(arena_units({{4, 0, 1}, {4, 2, 3}, {4, 4, 5}}, 6), 4);
}

TEST(Place, StacksWhatIsAliveTogether) {
  EXPECT_EQ(arena_units({{4, 0, 2}, {3, 1, 3}, {2, 2, 4}}, 5), 9);
}

TEST(Place, TreatsTheLastUseAndTheFirstUseAtOneInstructionAsOverlap) {
  EXPECT_EQ(arena_units({{4, 0, 1}, {4, 1, 2}}, 3), 8);
}

TEST(Place, PutsShortLivesBesideALongOne) {
  EXPECT_EQ(arena_units({{4, 0, 9}, {2, 1, 3}, {2, 4, 6}, {3, 7, 8}}, 10), 7);
}

TEST(Place, ReusesAChainOfGrowingBuffersAtTheLowerBound) {
  // In program order 32 | 28 | 36 ... leaves holes; by size the last, largest one takes them all.
  const std::vector<Block> blocks = {{32, 0, 1}, {28, 1, 4}, {36, 2, 5},
                                     {16, 3, 5}, {8, 4, 5},  {64, 5, 6}};
  EXPECT_EQ(arena_units(blocks, 7), 36 + 16 + 8 + 64);
}

TEST(Place, NamesTheInstructionThatNeedsMost) {
  const Program program = blocks_program({{4, 0, 2}, {3, 2, 3}, {1, 3, 4}}, 5);
  const Placement placement = place({&program});
  EXPECT_EQ(placement.peak.template_index, 0);
  EXPECT_EQ(placement.peak.instruction, 2);
  EXPECT_EQ(placement.lower_bound_bytes, 7 * kUnitBytes);
}

TEST(Place, RoundsBuffersUpToTheAlignment) {
  Program program = blocks_program({{1, 0, 1}, {1, 0, 1}}, 2);
  for (Buffer& buffer : program.buffers) buffer.bytes = 4;
  for (Instruction& instruction : program.templates[0].instructions) {
    for (Use& use : instruction.uses) use.range.bytes = 4;
  }
  EXPECT_EQ(place({&program}).arena_bytes, 2 * kUnitBytes);
}

TEST(Place, KindsSumToTheArena) {
  const Program program =
      build_train(small_request({.dp = 2, .zero = 1}, {.seq = 8, .global_batch = 4}));
  const Placement placement = place({&program});
  std::int64_t sum = 0;
  for (const std::int64_t bytes : placement.kind_bytes) sum += bytes;
  EXPECT_EQ(sum, placement.arena_bytes);
}

TEST(Place, ProgramsOfOneArenaShareTransientMemory) {
  const Program big = blocks_program({{8, 0, 1}}, 2), small = blocks_program({{3, 0, 1}}, 2);
  EXPECT_EQ(place({&big, &small}).arena_bytes, 8 * kUnitBytes);
}

TEST(Place, KeepsApartWhatTwoProgramsCallByDifferentNames) {
  Program first = blocks_program({{1, 0, 1}}, 2), second = first;
  for (Program* program : {&first, &second}) {
    program->buffers[0].content = Content::kState;
    program->templates[0].instructions[1].frees.clear();
  }
  EXPECT_EQ(place({&first, &second}).arena_bytes, kUnitBytes);
  second.buffers[0].name = "other";
  EXPECT_EQ(place({&first, &second}).arena_bytes, 2 * kUnitBytes);
}

}  // namespace
}  // namespace trireme
