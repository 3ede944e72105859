// Built programs and ways to break them, for the tests of the verifier.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"
#include "trireme/program/test_programs.h"
#include "trireme/program/verify.h"

namespace trireme::mutation {

using Programs = std::vector<Program>;

/// Programs of all ranks: `num_micro_batches` micro-batches of `num_sequences` sequences each.
inline Programs trained(Layout layout, std::int64_t num_micro_batches = 3,
                        ModelSpec spec = small_llama(), std::int64_t num_sequences = 1) {
  return all_ranks(small_request(layout,
                                 {.seq = 8,
                                  .micro_batch = num_sequences,
                                  .global_batch = layout.dp * num_micro_batches * num_sequences},
                                 spec));
}

inline const Layout kOneRank{};
inline const Layout kTwoRanks{.dp = 2, .bucket_mib = 0.001};
inline const Layout kSharded{.dp = 2, .zero = 1, .bucket_mib = 0.001};

// Pipelines, and layers cut over ranks
// --------------------------------------------------------------------------------------------------

inline const Layout kPipe{.pp = 2};
inline const Layout kSplit{.pp = 2, .schedule = "zb-h1"};
inline const Layout kLooped{.pp = 2, .schedule = "interleaved", .chunks = 2};
inline const Layout kV{.pp = 2, .schedule = "zb-v"};
inline const Layout kMirrored{.pp = 2, .schedule = "dualpipe"};
inline const Layout kTensor{.tp = 2};
inline const Layout kSequence{.tp = 2, .sp = true};

/// Sizes that 2 divides.
inline ModelSpec even_llama(std::int64_t layers = 2) {
  ModelSpec spec = small_llama();
  spec.layers = layers;
  spec.heads = 4;
  spec.kv_heads = 2;
  return resolved(spec);
}
inline ModelSpec even_qwen() {
  ModelSpec spec = even_llama();
  spec.tied = spec.qkv_bias = spec.qk_norm = true;
  return resolved(spec);
}
inline ModelSpec even_gpt2() {
  ModelSpec spec = small_gpt2();
  spec.heads = 2;
  spec.kv_heads = spec.head_dim = 0;
  return resolved(spec);
}

inline Programs piped(const Layout& layout = kPipe) {
  return trained(layout, 4, even_llama(layout.schedule == "1f1b" ? 2 : 4));
}
/// A tensor-parallel model; every change applies to all ranks, as a faulty pass would.
inline Programs tensor(const Layout& layout = kTensor) {
  return trained(layout, 2, even_gpt2());
}
/// With heads over more tokens than one chunk.
inline Programs chunked() {
  return trained(kTensor, 1, even_llama(), 40);
}

/// Name of the broken rule; "" if there is none.
inline std::string broken(const Programs& programs) {
  const auto violation = verify(programs);
  return violation ? violation->rule : "";
}

inline std::vector<Instruction>& body(Program& program, std::string_view name) {
  return program.at(*program.find_template(name)).instructions;
}

using Match = std::function<bool(const Instruction&)>;

inline Match is(Op op, Part part = Part::kNone, int layer = -1) {
  return [=](const Instruction& i) { return i.op == op && i.part == part && i.layer == layer; };
}
/// A communication whose data lie in memory of this kind.
inline Match moves(const Program& program, Op op, MemoryKind kind) {
  return [&program, op, kind](const Instruction& i) {
    return i.op == op && program.buffer(i.find(Role::kData)->range.buffer).kind == kind;
  };
}
inline Match moves(const Program& program, Op op, std::string_view buffer) {
  return [&program, op, buffer](const Instruction& i) {
    return i.op == op && program.buffer(i.find(Role::kData)->range.buffer).name == buffer;
  };
}

/// Position of the first match in template `name`; the template must have one.
inline std::size_t find(Program& program, std::string_view name, const Match& match) {
  const auto& instructions = body(program, name);
  const auto found = std::find_if(instructions.begin(), instructions.end(), match);
  TRI_CHECK(found != instructions.end());
  return static_cast<std::size_t>(found - instructions.begin());
}
inline Instruction& the(Program& program, std::string_view name, const Match& match) {
  return body(program, name)[find(program, name, match)];
}

/// As a faulty pass would leave it: events and lifetimes fit what the instructions have become.
inline void rederive(Program& program) {
  for (Template& item : program.templates) {
    for (Instruction& instruction : item.instructions) {
      instruction.waits.clear();
      instruction.frees.clear();
    }
  }
  for (Call& call : program.calls) call.waits.clear();
  derive_events(program);
  derive_lifetimes(program);
}

inline void drop(Program& program, std::string_view name, const Match& match) {
  auto& instructions = body(program, name);
  instructions.erase(instructions.begin() +
                     static_cast<std::ptrdiff_t>(find(program, name, match)));
  rederive(program);
}
/// Drops the instruction behind the first match: what a pass adds to it.
inline void drop_behind(Program& program, std::string_view name, const Match& match, Op op) {
  auto& instructions = body(program, name);
  const auto at = static_cast<std::ptrdiff_t>(find(program, name, match)) + 1;
  TRI_CHECK(instructions.at(static_cast<std::size_t>(at)).op == op);
  instructions.erase(instructions.begin() + at);
  rederive(program);
}
inline void duplicate(Program& program, std::string_view name, const Match& match) {
  auto& instructions = body(program, name);
  const std::size_t at = find(program, name, match);
  const Instruction copy = instructions[at];
  instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(at), copy);
  rederive(program);
}
/// Moves the first match behind the first match of `target` in the same template.
inline void move_behind(Program& program, std::string_view name, const Match& match,
                        const Match& target) {
  auto& instructions = body(program, name);
  const Instruction moved = the(program, name, match);
  instructions.erase(instructions.begin() +
                     static_cast<std::ptrdiff_t>(find(program, name, match)));
  const std::size_t at = find(program, name, target);
  instructions.insert(instructions.begin() + static_cast<std::ptrdiff_t>(at) + 1, moved);
  rederive(program);
}

// Calls
// --------------------------------------------------------------------------------------------------

/// Position of the call of a template for a micro-batch; there must be one.
inline std::size_t find_call(const Program& program, std::string_view name, int micro_batch = -1) {
  const auto found =
      std::find_if(program.calls.begin(), program.calls.end(), [&](const Call& call) {
        return program.at(call.template_index).name == name && call.micro_batch == micro_batch;
      });
  TRI_CHECK(found != program.calls.end());
  return static_cast<std::size_t>(found - program.calls.begin());
}
inline void drop_call(Program& program, std::string_view name, int micro_batch = -1) {
  program.calls.erase(program.calls.begin() +
                      static_cast<std::ptrdiff_t>(find_call(program, name, micro_batch)));
  rederive(program);
}
inline void swap_calls(Program& program, std::size_t a, std::size_t b) {
  std::swap(program.calls.at(a), program.calls.at(b));
  rederive(program);
}
/// Number of the pool of this name; there must be one.
inline int find_pool(const Program& program, std::string_view name) {
  const auto found = std::find_if(program.pools.begin(), program.pools.end(),
                                  [&](const FramePool& pool) { return pool.name == name; });
  TRI_CHECK(found != program.pools.end());
  return static_cast<int>(found - program.pools.begin());
}

template <typename Change>
Programs changed(Programs programs, Change change) {
  for (Program& program : programs) change(program);
  return programs;
}

}  // namespace trireme::mutation
