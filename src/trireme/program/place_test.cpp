#include "trireme/program/place.h"

#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/program/steps.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"
#include "trireme/program/verify_step.h"

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

// Frames
// --------------------------------------------------------------------------------------------------

/// Two micro-batches in flight: "first" writes `kept` of a frame and a scratch buffer, "second"
/// reads `kept` again.
Program framed_program() {
  Program program;
  program.request = small_request({}, {.seq = 8});
  program.num_micro_batches = 2;
  program.pools = {{.name = "in_flight", .num_frames = 2}};
  const auto add = [&](const char* name, Content content, int pool) {
    return program.add_buffer({.name = name,
                               .kind = MemoryKind::kActivations,
                               .content = content,
                               .bytes = kUnitBytes,
                               .pool = pool});
  };
  const BufferId kept = add("kept", Content::kFramed, 0);
  const BufferId also = add("also", Content::kFramed, 0);
  const BufferId scratch = add("scratch", Content::kTransient, -1);
  Instruction write = make(Op::kZero, {{Role::kY, Access::kWrite, program.whole(kept)},
                                       {Role::kX, Access::kWrite, program.whole(also)},
                                       {Role::kData, Access::kWrite, program.whole(scratch)}});
  write.frees = {scratch};
  Instruction read = make(Op::kAdd, {{Role::kX, Access::kRead, program.whole(kept)},
                                     {Role::kY, Access::kRead, program.whole(also)}});
  program.templates = {{.name = "first", .instructions = {write}},
                       {.name = "second", .instructions = {read}}};
  for (const int item : {0, 1}) {
    for (const int m : {0, 1}) {
      program.calls.push_back(
          {.template_index = item, .micro_batch = m, .frames = {{.pool = 0, .frame = m}}});
    }
  }
  return program;
}

TEST(PlaceFrames, GivesEachFrameBytesOfItsOwn) {
  const Program program = framed_program();
  const Placement placement = place({&program});
  EXPECT_EQ(placement.arena_bytes, 5 * kUnitBytes);  // two buffers in two frames, and the scratch
  EXPECT_EQ(placement.frame_bytes[0][0], 2 * kUnitBytes);
  EXPECT_EQ(placement.offset(0, 0, 0, 1) - placement.offset(0, 0, 0, 0), 2 * kUnitBytes);
  EXPECT_FALSE(verify_placement({&program}, placement).has_value());
}

TEST(PlaceFrames, RefusesFramesThatOverlap) {
  const Program program = framed_program();
  Placement placement = place({&program});
  placement.frame_bytes[0][0] = kUnitBytes;
  const auto violation = verify_placement({&program}, placement);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->rule, "V13");
}

TEST(PlaceFrames, RefusesAFrameInATransientBuffer) {
  const Program program = framed_program();
  Placement placement = place({&program});
  placement.offsets[0][2] = placement.offset(0, 1, 0, 1);
  EXPECT_TRUE(verify_placement({&program}, placement).has_value());
}

TEST(Frames, AtomsOfTwoFramesAreApart) {
  const Program program = framed_program();
  const AtomTable atoms(program);
  EXPECT_EQ(atoms.of(program.calls[0], 0, 0).begin, atoms.of(program.calls[2], 0, 0).begin);
  EXPECT_NE(atoms.of(program.calls[0], 0, 0).begin, atoms.of(program.calls[1], 0, 0).begin);
  EXPECT_EQ(atoms.range_of(atoms.of(program.calls[1], 0, 1).begin), program.whole(1));
}

/// The operands' fault of a framed program, changed.
std::string fault_of(const std::function<void(Program&)>& change) {
  Program program = framed_program();
  change(program);
  const auto violation = check_operands(program);
  return violation ? violation->message : "";
}

TEST(Frames, FaultsAreNamed) {
  // The bare program has no parameters: what is due before them is checked first.
  EXPECT_NE(fault_of([](Program& p) { p.calls[1].frames[0].frame = 2; }).find("frame 2 of pool 0"),
            std::string::npos);
  EXPECT_NE(fault_of([](Program& p) { p.calls[1].frames.clear(); }).find("without a frame"),
            std::string::npos);
  EXPECT_NE(fault_of([](Program& p) { p.buffers[2].pool = 0; }).find("scratch in pool 0"),
            std::string::npos);
  EXPECT_NE(fault_of([](Program& p) { p.pools[0].num_frames = 5; }).find("5 frames"),
            std::string::npos);
}

TEST(Place, ContextParallelismDividesActivationsAndAddsSlotsForKeys) {
  const ModelSpec spec = resolved({.family = Family::kLlama,
                                   .layers = 4,
                                   .hidden = 64,
                                   .heads = 8,
                                   .kv_heads = 2,
                                   .head_dim = 8,
                                   .ffn = 128,
                                   .vocab = 64,
                                   .max_seq = 256});
  const auto activation_bytes = [&](const Layout& layout) {
    const Program program = build_train(small_request(layout, {.seq = 256}, spec));
    return place({&program}).kind_bytes.at(static_cast<std::size_t>(MemoryKind::kActivations));
  };
  for (const Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
    for (const int cp : {2, 4}) {
      const std::int64_t due = activation_bytes({.recompute = recompute}) / cp;
      const std::int64_t keys = 256 / cp * 2 * spec.kv_width() * 4;  // and values, of one rank
      // Two slots, what a rank adds to gradients, and where they are while away from home.
      EXPECT_LE(activation_bytes({.cp = cp, .recompute = recompute}), due + 4 * keys);
      const Layout gather{.cp = cp, .cp_comm = CpComm::kAllGather, .recompute = recompute};
      EXPECT_LE(activation_bytes(gather), due + 2 * cp * keys);
    }
  }
}

}  // namespace
}  // namespace trireme
