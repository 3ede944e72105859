#include "trireme/program/build.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

void add_small_buffer(Program& program, const char* name, MemoryKind kind, Content content,
                      DType dtype, std::int64_t elems) {
  program.add_buffer({.name = name,
                      .kind = kind,
                      .content = content,
                      .dtype = dtype,
                      .bytes = elems * dtype_bytes(dtype)});
}

void add_inputs(Program& program) {
  const TokenShape shape = token_shape(program);
  const ModelSpec& spec = program.request.spec;
  add_small_buffer(program, "tokens", MemoryKind::kActivations, Content::kStep, DType::kI32,
                   shape.tokens());
  if (shape.cache == 0) {
    add_small_buffer(program, "labels", MemoryKind::kActivations, Content::kStep, DType::kI32,
                     shape.tokens());
    add_small_buffer(program, "loss", MemoryKind::kWorkspace, Content::kStep, DType::kF64, 1);
    add_small_buffer(program, "num_tokens", MemoryKind::kWorkspace, Content::kStep, DType::kF64, 1);
  } else {
    add_small_buffer(program, "length", MemoryKind::kWorkspace, Content::kInput, DType::kI64, 1);
  }
  if (program.kind == ProgramKind::kTrain) {
    add_small_buffer(program, "inv_tokens", MemoryKind::kWorkspace, Content::kStep, DType::kF32, 1);
    add_small_buffer(program, "norm_sq", MemoryKind::kWorkspace, Content::kStep, DType::kF64, 1);
    add_small_buffer(program, "hyper", MemoryKind::kWorkspace, Content::kInput, DType::kF64,
                     HyperLayout::kCount);
    add_small_buffer(program, "coef", MemoryKind::kWorkspace, Content::kStep, DType::kF32,
                     CoefficientLayout::kCount);
    if (spec.dropout > 0) {
      add_small_buffer(program, "samples", MemoryKind::kActivations, Content::kStep, DType::kI64,
                       shape.micro_batch);
    }
  }
  if (spec.is_llama()) {
    const std::int64_t positions = shape.cache > 0 ? shape.cache : shape.seq;
    for (const char* const name : {"rope.cos", "rope.sin"}) {
      add_small_buffer(program, name, MemoryKind::kWorkspace, Content::kConstant, DType::kF32,
                       positions * spec.head_dim / 2);
    }
  }
  add_small_buffer(program, "workspace.compute", MemoryKind::kWorkspace, Content::kStep, DType::kU8,
                   kAlignBytes);
}

void add_load(Program& program, int template_index) {
  Instruction load = make(Op::kLoad, {});
  for (const auto& [role, name] :
       {std::pair(Role::kTokens, "tokens"), std::pair(Role::kLabels, "labels"),
        std::pair(Role::kSamples, "samples")}) {
    const auto buffer = program.find_buffer(name);
    if (buffer) load.uses.push_back({role, Access::kWrite, program.whole(*buffer)});
  }
  program.at(template_index).instructions.push_back(std::move(load));
}

Program start(ProgramKind kind, const BuildRequest& request, int num_micro_batches) {
  Program program;
  program.kind = kind;
  program.request = request;
  program.num_micro_batches = num_micro_batches;
  add_inputs(program);
  add_parameter_buffers(program);
  return program;
}

Program build_generation(ProgramKind kind, const BuildRequest& request) {
  Program program = start(kind, request, 1);
  const int micro = program.template_index("micro");
  add_load(program, micro);
  ModelBuilder model(program, micro);
  model.forward();
  model.logits();
  accumulate(program);
  move_into_roots(program, single_root(program));
  derive_events(program);
  derive_lifetimes(program);
  return program;
}

}  // namespace

Program build_train(const BuildRequest& request) {
  const Layout& layout = request.layout;
  Program program =
      start(ProgramKind::kTrain, request, narrow<int>(request.batch.num_micro_batches(layout)));
  const int micro = program.template_index("micro");
  add_load(program, micro);
  ModelBuilder model(program, micro);
  model.forward();
  model.head_backward();
  model.backward();

  recompute(program);
  accumulate(program);
  sum_loss(program);
  tie_embeddings(program);
  bucket(program);
  if (layout.dp > 1) {
    all_reduce_gradients(program);
    if (layout.dp_sync == DpSync::kOverlapped) overlap_reductions(program);
  }
  clip(program);
  optimize(program);
  if (layout.zero == 1 && layout.dp > 1) shard_optimizer(program);
  derive_events(program);
  derive_lifetimes(program);
  return program;
}

Program build_eval(const BuildRequest& request, int num_micro_batches,
                   const std::optional<ParameterRoots>& roots) {
  Program program = start(ProgramKind::kEval, request, num_micro_batches);
  const int micro = program.template_index("micro");
  add_load(program, micro);
  ModelBuilder model(program, micro);
  model.forward();
  model.head_loss();
  accumulate(program);
  sum_loss(program);
  move_into_roots(program, roots ? *roots : single_root(program));
  derive_events(program);
  derive_lifetimes(program);
  return program;
}

Program build_prefill(const BuildRequest& request) {
  return build_generation(ProgramKind::kPrefill, request);
}

Program build_decode(const BuildRequest& request) {
  return build_generation(ProgramKind::kDecode, request);
}

void set_workspace_bytes(Program& program, std::int64_t bytes) {
  const BufferId workspace = *program.find_buffer("workspace.compute");
  const std::int64_t rounded = round_up(std::max<std::int64_t>(bytes, 1), kAlignBytes);
  program.buffers.at(static_cast<std::size_t>(workspace)).bytes = rounded;
  for (Template& item : program.templates) {
    for (Instruction& instruction : item.instructions) {
      for (Use& use : instruction.uses) {
        if (use.range.buffer == workspace) use.range.bytes = rounded;
      }
    }
  }
}

}  // namespace trireme
