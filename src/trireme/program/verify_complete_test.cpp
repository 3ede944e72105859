// Programs of which anything is left out are refused, whatever it is.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/base/sanitized.h"
#include "trireme/program/text.h"
#include "trireme/program/verify_test_programs.h"

namespace trireme::mutation {
namespace {

// Whatever is left out
// --------------------------------------------------------------------------------------------------

/// Ranks of one place of the pipeline: a faulty pass leaves the same out on all of them.
std::vector<int> replicas(const Layout& layout, int pp) {
  std::vector<int> ranks;
  for (int rank = 0; rank < layout.world(); ++rank) {
    if (layout.mesh().coord_of(rank).pp == pp) ranks.push_back(rank);
  }
  return ranks;
}

/// Calls `check(mutants)` with one change on all replicas; what even the passes refuse to go on
/// with is no mutant.
template <typename Change, typename Check>
void change_replicas(const Programs& programs, int pp, Change change, Check check) {
  Programs mutants = programs;
  try {
    for (const int rank : replicas(programs.front().request.layout, pp)) {
      change(mutants[static_cast<std::size_t>(rank)]);
      rederive(mutants[static_cast<std::size_t>(rank)]);
    }
  } catch (const InternalError&) {
    return;
  }
  check(mutants);
}

/// Nothing depends on them: 1/N where no head is, padding that no reduction reads.
bool is_spare(const Program& program, const Instruction& instruction) {
  const Layout& layout = program.request.layout;
  if (instruction.op == Op::kZero && layout.dp == 1)
    return program.buffer(instruction.find(Role::kY)->range.buffer).kind == MemoryKind::kGradients;
  if (instruction.op != Op::kInverse) return false;
  const LocalModel model(program);
  return !model.holds_stage(model.pipeline().num_stages() - 1);
}

const std::pair<Layout, ModelSpec> kCompleteCases[] = {
    {{.pp = 2, .dp = 2, .tp = 2, .sp = true, .schedule = "zb-h1", .zero = 1}, even_gpt2()},
    {{.tp = 2, .sp = true, .recompute = Recompute::kFull}, even_qwen()},
    {{.pp = 2, .schedule = "dualpipe", .recompute = Recompute::kSelective}, even_qwen()},
    {{.pp = 2, .tp = 2, .schedule = "zb-v"}, even_llama(4)}};

/// Calls `visit(programs, pp, first)` for each place of each case; `first` has it.
template <typename Visit>
void for_each_place(Visit visit) {
  for (const auto& [layout, spec] : kCompleteCases) {
    const Programs programs = trained(layout, 4, spec);
    for (int pp = 0; pp < layout.pp; ++pp) {
      SCOPED_TRACE(layout_text(layout, programs.front().request.batch) + " place " +
                   std::to_string(pp));
      visit(programs, pp, programs[static_cast<std::size_t>(replicas(layout, pp).front())]);
    }
  }
}

TEST(VerifyMutants, EachInstructionIsNeeded) {
  constexpr std::size_t kEvery = kIsSanitized ? 10 : 1;
  std::size_t num_mutants = 0;
  for_each_place([&](const Programs& programs, int pp, const Program& first) {
    for (std::size_t t = 0; t < first.templates.size(); ++t) {
      const auto& instructions = first.templates[t].instructions;
      for (std::size_t i = 0; i < instructions.size(); i += kEvery) {
        if (is_spare(first, instructions[i])) continue;
        const auto leave_out = [&](Program& program) {
          auto& all = program.templates[t].instructions;
          if (i < all.size()) all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
        };
        change_replicas(programs, pp, leave_out, [&](const Programs& mutants) {
          EXPECT_NE(broken(mutants), "")
              << first.templates[t].name << ": " << instruction_text(first, instructions[i]);
          ++num_mutants;
        });
      }
    }
  });
  EXPECT_GE(num_mutants, 1000 / kEvery);
}

TEST(VerifyMutants, EachCallIsNeeded) {
  for_each_place([](const Programs& programs, int pp, const Program& first) {
    for (std::size_t c = 0; c < first.calls.size(); ++c) {
      const auto leave_out = [c](Program& program) {
        program.calls.erase(program.calls.begin() + static_cast<std::ptrdiff_t>(c));
      };
      change_replicas(programs, pp, leave_out, [&](const Programs& mutants) {
        EXPECT_NE(broken(mutants), "") << "call " << c;
      });
    }
  });
}

}  // namespace
}  // namespace trireme::mutation
