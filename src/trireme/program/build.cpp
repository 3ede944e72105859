#include "trireme/program/build.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
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

void add_inputs(Program& program, const LocalModel& model) {
  const TokenShape shape = token_shape(program);
  const ModelSpec& spec = model.spec();
  if (shape.cache == 0) {
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

/// A program whose templates are the bodies of the rank's stages.
template <typename Body>
Program start(ProgramKind kind, const BuildRequest& request, const LocalModel& model,
              int num_micro_batches, Body body) {
  Program program;
  program.kind = kind;
  program.request = request;
  program.num_micro_batches = num_micro_batches;
  add_inputs(program, model);
  add_parameter_buffers(program, model);
  for (const int stage : model.computed_stages()) {
    const int micro = program.template_index(stage_prefix(model.pipeline(), stage) + "micro");
    ModelBuilder builder(program, micro, model, stage);
    builder.load();
    builder.forward();
    body(builder, model.pipeline().is_last(stage));
  }
  if (request.layout.tp > 1) tensor_parallel(program, model);
  if (model.is_sequence_parallel()) sequence_parallel(program, model);
  return program;
}

Program build_generation(ProgramKind kind, const BuildRequest& request) {
  const LocalModel model(request, kind, 1);
  Program program = start(kind, request, model, 1, [](ModelBuilder& builder, bool is_last) {
    if (is_last) builder.logits();
  });
  pipeline(program, model);
  assign_frames(program);
  move_into_roots(program, single_root(program));
  derive_events(program);
  derive_lifetimes(program);
  return program;
}

}  // namespace

Program build_train(const BuildRequest& request) {
  const Layout& layout = request.layout;
  const int num_micro_batches = narrow<int>(request.batch.num_micro_batches(layout));
  const LocalModel model(request, ProgramKind::kTrain, num_micro_batches);
  Program program = start(ProgramKind::kTrain, request, model, num_micro_batches,
                          [](ModelBuilder& builder, bool is_last) {
                            if (is_last) builder.head_backward();
                            builder.backward();
                          });
  recompute(program);
  context_parallel(program, model);
  pipeline(program, model);
  assign_frames(program);
  sum_loss(program);
  tie_embeddings(program);
  bucket(program, model);
  if (model.shards_gradients()) shard_gradients(program, model);
  accumulate(program);
  sum_replicas(program, model);
  const Replicas replicas = replicas_of(request);
  if (replicas.size > 1) {
    all_reduce_gradients(program);
    if (layout.dp_sync == DpSync::kOverlapped) overlap_reductions(program);
  }
  clip(program, model);
  optimize(program);
  if (replicas.is_sharded()) shard_optimizer(program);
  if (gathers_parameters(request)) gather_parameters(program);
  if (model.shards_gradients()) share_buckets(program);
  derive_events(program);
  derive_lifetimes(program);
  return program;
}

Program build_eval(const BuildRequest& request, int num_micro_batches,
                   const std::optional<ParameterRoots>& roots) {
  const LocalModel model(request, ProgramKind::kEval, num_micro_batches);
  Program program = start(ProgramKind::kEval, request, model, num_micro_batches,
                          [](ModelBuilder& builder, bool is_last) {
                            if (is_last) builder.head_loss();
                          });
  context_parallel(program, model);
  pipeline(program, model);
  assign_frames(program);
  sum_loss(program);
  move_into_roots(program, roots ? *roots : single_root(program));
  if (roots && gathers_parameters(request)) gather_parameters(program);
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
