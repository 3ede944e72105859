#include "trireme/program/model_parts.h"

#include <cstddef>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {
namespace {

std::optional<std::int64_t> layer_key(int layer) {
  if (layer < 0) return std::nullopt;
  return layer;
}

std::string prefix(int layer) {
  return layer < 0 ? std::string() : fmt::format("L{}.", layer);
}

}  // namespace

TokenShape token_shape(const Program& program) {
  const Batch& batch = program.request.batch;
  const std::int64_t max_seq = program.request.spec.max_seq;
  switch (program.kind) {
    case ProgramKind::kPrefill:
      return {.micro_batch = 1, .seq = max_seq, .cache = max_seq};
    case ProgramKind::kDecode:
      return {.micro_batch = 1, .seq = 1, .cache = max_seq};
    case ProgramKind::kTrain:
    case ProgramKind::kEval:
      break;
  }
  return {.micro_batch = batch.micro_batch,
          .seq = div_exact(batch.seq, program.request.layout.cp),
          .cache = 0};
}

TokenPieces token_pieces(const Program& program) {
  const BuildRequest& request = program.request;
  if (!has_loss(program.kind)) return {};
  const int cp_rank = request.layout.mesh().coord_of(request.rank).cp;
  return zigzag_pieces(request.batch.seq, request.layout.cp, cp_rank);
}

std::optional<ParameterRole> weight_role(Part part) {
  switch (part) {
    case Part::kAttnNorm:
      return ParameterRole::kAttnNormWeight;
    case Part::kQkv:
      return ParameterRole::kQkvWeight;
    case Part::kProj:
      return ParameterRole::kProjWeight;
    case Part::kMlpNorm:
      return ParameterRole::kMlpNormWeight;
    case Part::kMlpUp:
      return ParameterRole::kUpWeight;
    case Part::kMlpDown:
      return ParameterRole::kDownWeight;
    case Part::kFinalNorm:
      return ParameterRole::kFinalNormWeight;
    default:
      return std::nullopt;
  }
}

std::optional<ParameterRole> bias_role(Part part) {
  switch (part) {
    case Part::kAttnNorm:
      return ParameterRole::kAttnNormBias;
    case Part::kQkv:
      return ParameterRole::kQkvBias;
    case Part::kProj:
      return ParameterRole::kProjBias;
    case Part::kMlpNorm:
      return ParameterRole::kMlpNormBias;
    case Part::kMlpUp:
      return ParameterRole::kUpBias;
    case Part::kMlpDown:
      return ParameterRole::kDownBias;
    case Part::kFinalNorm:
      return ParameterRole::kFinalNormBias;
    default:
      return std::nullopt;
  }
}

LinearShape linear_shape(const ModelSpec& local_spec, Part part) {
  switch (part) {
    case Part::kQkv:
      return {local_spec.qkv_width(), local_spec.hidden};
    case Part::kProj:
      return {local_spec.hidden, local_spec.q_width()};
    case Part::kMlpUp:
      return {local_spec.up_width(), local_spec.hidden};
    case Part::kMlpDown:
      return {local_spec.hidden, local_spec.ffn};
    default:
      TRI_CHECK(false && "not a linear part");
      return {};
  }
}

std::string stage_prefix(const Pipeline& pipeline, int stage) {
  return pipeline.num_stages() == 1 ? std::string() : fmt::format("S{}.", stage);
}

std::string stage_in_name(const Pipeline& pipeline, int stage) {
  return stage_prefix(pipeline, stage) + "in";
}

std::string stage_out_name(const Pipeline& pipeline, int stage) {
  return stage_prefix(pipeline, stage) + "out";
}

std::string stream_gradient_name(const Pipeline& pipeline, int stage) {
  return fmt::format("d_{}stream", stage_prefix(pipeline, stage));
}

void add_parameter_buffers(Program& program, const LocalModel& model) {
  const bool trains = program.kind == ProgramKind::kTrain;
  const int last = model.pipeline().num_stages() - 1;
  for (std::size_t row = 0; row < model.table().rows().size(); ++row) {
    ParameterSlot& slot = program.parameters.emplace_back();
    if (!model.holds(row)) continue;
    const Parameter& parameter = model.row(row);
    const auto add = [&](std::string_view kind_name, MemoryKind kind, Content content,
                         DType dtype = DType::kF32) {
      return program.whole(
          program.add_buffer({.name = fmt::format("{}.{}", kind_name, parameter.name),
                              .kind = kind,
                              .content = content,
                              .dtype = dtype,
                              .bytes = model.shard(row).num_elems() * dtype_bytes(dtype)}));
    };
    slot.parameter =
        add("param", MemoryKind::kParameters, Content::kState, program.request.compute);
    if (!trains || !parameter.trainable) continue;
    slot.gradient = add("grad", MemoryKind::kGradients, Content::kStep);
    const bool is_tied_table =
        program.request.spec.tied && narrow<std::int64_t>(row) == model.table().head_index();
    if (is_tied_table && model.holds_stage(0) && model.holds_stage(last)) {
      slot.head_gradient = add("grad_as_head", MemoryKind::kGradients, Content::kStep);
    }
  }
}

ModelBuilder::ModelBuilder(Program& program, int template_index, const LocalModel& model, int stage)
    : program_(program),
      template_index_(template_index),
      model_(model),
      stage_(stage),
      shape_(token_shape(program)),
      prefix_(stage_prefix(model.pipeline(), stage)),
      layers_(static_cast<std::size_t>(program.request.spec.layers)) {}

bool ModelBuilder::has_dropout() const {
  return program_.kind == ProgramKind::kTrain && spec().dropout > 0;
}

void ModelBuilder::load() {
  std::vector<Use> uses;
  const auto add = [&](Role role, const char* name, std::int64_t elems, DType dtype) {
    const BufferId id = activation(prefix_ + name, elems, dtype);
    uses.push_back(use(role, Access::kWrite, id));
    return id;
  };
  if (is_first()) tokens_ = add(Role::kTokens, "tokens", shape_.tokens(), DType::kI32);
  if (is_last() && shape_.cache == 0)
    labels_ = add(Role::kLabels, "labels", shape_.tokens(), DType::kI32);
  if (has_dropout()) samples_ = add(Role::kSamples, "samples", shape_.micro_batch, DType::kI64);
  if (!uses.empty()) emit(Op::kLoad, Part::kNone, -1, std::move(uses));
}

BufferId ModelBuilder::activation(const std::string& name, std::int64_t elems) {
  return activation(name, elems, program_.request.compute);
}

BufferId ModelBuilder::activation(const std::string& name, std::int64_t elems, DType dtype) {
  return program_.add_buffer({.name = name,
                              .kind = MemoryKind::kActivations,
                              .content = Content::kTransient,
                              .dtype = dtype,
                              .bytes = elems * dtype_bytes(dtype)});
}

BufferId ModelBuilder::gradient(const std::string& name, std::int64_t elems) {
  return activation("d_" + name, elems);
}

ModelBuilder::KeyRanges ModelBuilder::keys_and_values(const std::string& name) {
  const std::int64_t elems = shape_.tokens() * spec().kv_width();
  if (model_.num_cp_ranks() == 1) {
    const BufferId k = activation(name + "k", elems), v = activation(name + "v", elems);
    return {program_.whole(k), program_.whole(v)};
  }
  const BufferId both = activation(name + "kv", 2 * elems);
  const std::int64_t half = program_.buffer(both).bytes / 2;
  return {{both, 0, half}, {both, half, half}};
}

Use ModelBuilder::use(Role role, Access access, BufferId buffer) const {
  return {.role = role, .access = access, .range = program_.whole(buffer)};
}

bool ModelBuilder::has(ParameterRole role, int layer) const {
  return model_.table().find(role, layer_key(layer)).has_value();
}

const ParameterSlot& ModelBuilder::slot(ParameterRole role, int layer) const {
  return program_.parameters.at(
      static_cast<std::size_t>(*model_.table().find(role, layer_key(layer))));
}

const ParameterSlot& ModelBuilder::head_slot() const {
  return program_.parameters.at(static_cast<std::size_t>(model_.table().head_index()));
}

Instruction& ModelBuilder::emit(Op op, Part part, int layer, std::vector<Use> uses) {
  auto& instructions = program_.at(template_index_).instructions;
  instructions.push_back(
      {.op = op, .part = part, .layer = layer, .stage = stage_, .uses = std::move(uses)});
  return instructions.back();
}

void ModelBuilder::add_parameter(Instruction& instruction, Role role,
                                 ParameterRole parameter_role) {
  if (!has(parameter_role, instruction.layer)) return;
  instruction.uses.push_back(
      {role, Access::kRead, slot(parameter_role, instruction.layer).parameter});
}

void ModelBuilder::add_gradient(Instruction& instruction, Role role, ParameterRole parameter_role) {
  if (!has(parameter_role, instruction.layer)) return;
  const Range range = slot(parameter_role, instruction.layer).gradient;
  if (range.buffer >= 0) instruction.uses.push_back({role, Access::kWrite, range});
}

void ModelBuilder::add_workspace(Instruction& instruction) {
  const BufferId workspace = *program_.find_buffer("workspace.compute");
  instruction.uses.push_back(use(Role::kWorkspace, Access::kWrite, workspace));
}

// Forward
// --------------------------------------------------------------------------------------------------

void ModelBuilder::forward() {
  if (is_first()) {
    embed();
  } else {
    stream_ = activation(stage_in_name(model_.pipeline(), stage_), shape_.tokens() * spec().hidden);
  }
  const StageLayers& layers = model_.pipeline().stage(stage_);
  for (int layer = layers.begin; layer < layers.end; ++layer) layer_forward(layer);
  if (is_last()) {
    final_ = norm(Part::kFinalNorm, -1, stream_, delta_);
  } else {
    stage_out();
  }
}

void ModelBuilder::stage_out() {
  const BufferId out =
      activation(stage_out_name(model_.pipeline(), stage_), shape_.tokens() * spec().hidden);
  Instruction& sum =
      emit(Op::kForward, Part::kStageOut, -1, {use(Role::kX, Access::kRead, stream_)});
  if (delta_ >= 0) sum.uses.push_back(use(Role::kDelta, Access::kRead, delta_));
  sum.uses.push_back(use(Role::kY, Access::kWrite, out));
}

void ModelBuilder::embed() {
  stream_ = activation("embed", shape_.tokens() * spec().hidden);
  Instruction& embed =
      emit(Op::kForward, Part::kEmbed, -1, {use(Role::kTokens, Access::kRead, tokens_)});
  add_parameter(embed, Role::kWeight, ParameterRole::kTokenTable);
  add_parameter(embed, Role::kWeight2, ParameterRole::kPositionTable);
  if (shape_.cache > 0) {
    embed.uses.push_back(use(Role::kLength, Access::kRead, *program_.find_buffer("length")));
  }
  embed.uses.push_back(use(Role::kY, Access::kWrite, stream_));
  dropout(-1, Site::kEmbed, stream_);
}

ModelBuilder::NormBuffers ModelBuilder::norm(Part part, int layer, BufferId x, BufferId delta) {
  const std::int64_t hidden = spec().hidden;
  const std::string name = prefix(layer) + (part == Part::kAttnNorm  ? "attn_norm"
                                            : part == Part::kMlpNorm ? "mlp_norm"
                                                                     : "final_norm");
  NormBuffers out{.h = x, .y = -1, .stats = -1};
  Instruction instruction{.op = Op::kForward, .part = part, .layer = layer, .stage = stage_};
  instruction.uses.push_back(use(Role::kX, Access::kRead, x));
  if (delta >= 0) {
    out.h = activation(name + ".h", shape_.tokens() * hidden);
    instruction.uses.push_back(use(Role::kDelta, Access::kRead, delta));
    instruction.uses.push_back(use(Role::kH, Access::kWrite, out.h));
  }
  add_parameter(instruction, Role::kWeight, *weight_role(part));
  add_parameter(instruction, Role::kBias, *bias_role(part));
  out.y = activation(name, shape_.tokens() * hidden);
  out.stats =
      activation(name + ".stats", shape_.tokens() * (spec().is_llama() ? 1 : 2), DType::kF32);
  instruction.uses.push_back(use(Role::kY, Access::kWrite, out.y));
  instruction.uses.push_back(use(Role::kStats, Access::kWrite, out.stats));
  program_.at(template_index_).instructions.push_back(std::move(instruction));
  stream_ = out.h;
  delta_ = -1;
  return out;
}

BufferId ModelBuilder::linear(Part part, int layer, BufferId x, std::int64_t width) {
  const std::string name = prefix(layer) + (part == Part::kQkv     ? "qkv"
                                            : part == Part::kProj  ? "proj"
                                            : part == Part::kMlpUp ? "mlp_up"
                                                                   : "mlp_down");
  const BufferId y = activation(name, shape_.tokens() * width);
  Instruction& instruction = emit(Op::kForward, part, layer, {use(Role::kX, Access::kRead, x)});
  add_parameter(instruction, Role::kWeight, *weight_role(part));
  add_parameter(instruction, Role::kBias, *bias_role(part));
  instruction.uses.push_back(use(Role::kY, Access::kWrite, y));
  add_workspace(instruction);
  return y;
}

void ModelBuilder::attention(int layer, LayerBuffers& at) {
  const ModelSpec& spec = model_.spec();
  const std::int64_t tokens = shape_.tokens();
  const std::string name = prefix(layer);
  at.q = activation(name + "q", tokens * spec.q_width());
  at.keys = keys_and_values(name);
  at.o = activation(name + "attn", tokens * spec.q_width());
  at.lse = activation(name + "lse", tokens * spec.heads, DType::kF32);
  if (shape_.cache > 0) {
    for (Range* const cache : {&at.keys.k, &at.keys.v}) {
      Buffer& buffer = program_.buffers.at(static_cast<std::size_t>(cache->buffer));
      buffer.content = Content::kState;
      buffer.bytes = cache->bytes = shape_.cache * spec.kv_width() * dtype_bytes(buffer.dtype);
      buffer.name = "cache." + buffer.name;
    }
    program_.set_buffers(std::exchange(program_.buffers, {}));  // by their new names
  }
  const Access cache_access = shape_.cache > 0 ? Access::kReadWrite : Access::kWrite;
  Instruction& rope =
      emit(Op::kForward, Part::kRope, layer, {use(Role::kX, Access::kRead, at.qkv)});
  if (spec.is_llama()) {
    rope.uses.push_back(use(Role::kCos, Access::kRead, *program_.find_buffer("rope.cos")));
    rope.uses.push_back(use(Role::kSin, Access::kRead, *program_.find_buffer("rope.sin")));
  }
  add_parameter(rope, Role::kQNorm, ParameterRole::kQNormWeight);
  add_parameter(rope, Role::kKNorm, ParameterRole::kKNormWeight);
  rope.uses.push_back(use(Role::kQ, Access::kWrite, at.q));
  rope.uses.push_back({Role::kK, cache_access, at.keys.k});
  rope.uses.push_back({Role::kV, cache_access, at.keys.v});
  if (shape_.cache > 0)
    rope.uses.push_back(use(Role::kLength, Access::kRead, *program_.find_buffer("length")));

  Instruction& attn = emit(Op::kForward, Part::kAttn, layer,
                           {use(Role::kQ, Access::kRead, at.q),
                            {Role::kK, Access::kRead, at.keys.k},
                            {Role::kV, Access::kRead, at.keys.v},
                            use(Role::kY, Access::kWrite, at.o),
                            use(Role::kLse, Access::kWrite, at.lse)});
  if (shape_.cache > 0)
    attn.uses.push_back(use(Role::kLength, Access::kRead, *program_.find_buffer("length")));
  if (has_dropout()) {
    attn.site = Site::kAttnProbs;
    attn.uses.push_back(use(Role::kSamples, Access::kRead, samples_));
  }
  add_workspace(attn);
}

void ModelBuilder::dropout(int layer, Site site, BufferId buffer) {
  if (!has_dropout()) return;
  emit(Op::kForward, Part::kDropout, layer,
       {use(Role::kSamples, Access::kRead, samples_), use(Role::kY, Access::kReadWrite, buffer)})
      .site = site;
}

void ModelBuilder::layer_forward(int layer) {
  const ModelSpec& spec = model_.spec();
  LayerBuffers& at = layers_.at(static_cast<std::size_t>(layer));
  const NormBuffers first = norm(Part::kAttnNorm, layer, stream_, delta_);
  at.h = first.h, at.attn_norm = first.y, at.attn_stats = first.stats;
  at.qkv = linear(Part::kQkv, layer, at.attn_norm, spec.qkv_width());
  attention(layer, at);
  at.proj = linear(Part::kProj, layer, at.o, spec.hidden);
  dropout(layer, Site::kAttnResidual, at.proj);
  const NormBuffers second = norm(Part::kMlpNorm, layer, stream_, at.proj);
  at.mlp_h = second.h, at.mlp_norm = second.y, at.mlp_stats = second.stats;
  at.up = linear(Part::kMlpUp, layer, at.mlp_norm, spec.up_width());
  at.act = activation(prefix(layer) + "act", shape_.tokens() * spec.ffn);
  emit(Op::kForward, Part::kAct, layer,
       {use(Role::kX, Access::kRead, at.up), use(Role::kY, Access::kWrite, at.act)});
  at.down = linear(Part::kMlpDown, layer, at.act, spec.hidden);
  dropout(layer, Site::kMlpResidual, at.down);
  delta_ = at.down;
}

// Head and loss
// --------------------------------------------------------------------------------------------

void ModelBuilder::head_backward() {
  d_final_ = gradient("final_norm", shape_.tokens() * spec().hidden);
  Instruction& head = emit(Op::kBackward, Part::kHead, -1,
                           {use(Role::kX, Access::kRead, final_.y),
                            {Role::kWeight, Access::kRead, head_slot().parameter},
                            use(Role::kLabels, Access::kRead, labels_),
                            use(Role::kScale, Access::kRead, *program_.find_buffer("inv_tokens")),
                            use(Role::kDx, Access::kWrite, d_final_)});
  const Range d_weight = head_slot().head_gradient.value_or(head_slot().gradient);
  if (d_weight.buffer >= 0) head.uses.push_back({Role::kDWeight, Access::kWrite, d_weight});
  head.uses.push_back(use(Role::kLoss, Access::kAccumulate, *program_.find_buffer("loss")));
  add_workspace(head);
}

void ModelBuilder::head_loss() {
  Instruction& head = emit(Op::kForward, Part::kHead, -1,
                           {use(Role::kX, Access::kRead, final_.y),
                            {Role::kWeight, Access::kRead, head_slot().parameter},
                            use(Role::kLabels, Access::kRead, labels_),
                            use(Role::kLoss, Access::kAccumulate, *program_.find_buffer("loss"))});
  add_workspace(head);
}

void ModelBuilder::logits() {
  const DType dtype = program_.request.compute;
  const BufferId logits =
      program_.add_buffer({.name = "logits",
                           .kind = MemoryKind::kActivations,
                           .content = Content::kStep,
                           .dtype = dtype,
                           .bytes = program_.request.spec.vocab * dtype_bytes(dtype)});
  Instruction& instruction =
      emit(Op::kForward, Part::kLogits, -1,
           {use(Role::kX, Access::kRead, final_.y),
            {Role::kWeight, Access::kRead, head_slot().parameter},
            use(Role::kLength, Access::kRead, *program_.find_buffer("length")),
            use(Role::kLogits, Access::kWrite, logits)});
  add_workspace(instruction);
}

// Backward
// -------------------------------------------------------------------------------------------------

void ModelBuilder::backward() {
  d_stream_ =
      activation(stream_gradient_name(model_.pipeline(), stage_), shape_.tokens() * spec().hidden);
  if (is_last()) norm_backward(Part::kFinalNorm, -1, d_final_, final_);
  const StageLayers& layers = model_.pipeline().stage(stage_);
  for (int layer = layers.end - 1; layer >= layers.begin; --layer) layer_backward(layer);
  if (!is_first()) return;
  const BufferId d_embed = dropout_backward(-1, Site::kEmbed, d_stream_);
  Instruction& embed =
      emit(Op::kBackward, Part::kEmbed, -1,
           {use(Role::kTokens, Access::kRead, tokens_), use(Role::kDy, Access::kRead, d_embed)});
  add_gradient(embed, Role::kDWeight, ParameterRole::kTokenTable);
  add_gradient(embed, Role::kDWeight2, ParameterRole::kPositionTable);
}

void ModelBuilder::norm_backward(Part part, int layer, BufferId dy, NormBuffers saved) {
  Instruction& instruction =
      emit(Op::kBackward, part, layer,
           {use(Role::kDy, Access::kRead, dy), use(Role::kH, Access::kRead, saved.h),
            use(Role::kStats, Access::kRead, saved.stats)});
  add_parameter(instruction, Role::kWeight, *weight_role(part));
  const Access access = part == Part::kFinalNorm ? Access::kWrite : Access::kReadWrite;
  instruction.uses.push_back(use(Role::kDh, access, d_stream_));
  add_gradient(instruction, Role::kDWeight, *weight_role(part));
  add_gradient(instruction, Role::kDBias, *bias_role(part));
  add_workspace(instruction);
}

BufferId ModelBuilder::linear_backward(Part part, int layer, BufferId dy, BufferId x,
                                       std::int64_t width) {
  const BufferId dx = gradient(program_.buffer(x).name, shape_.tokens() * width);
  Instruction& input = emit(Op::kBackwardInput, part, layer, {use(Role::kDy, Access::kRead, dy)});
  add_parameter(input, Role::kWeight, *weight_role(part));
  input.uses.push_back(use(Role::kDx, Access::kWrite, dx));
  add_workspace(input);
  Instruction& weight = emit(Op::kBackwardWeight, part, layer,
                             {use(Role::kDy, Access::kRead, dy), use(Role::kX, Access::kRead, x)});
  add_gradient(weight, Role::kDWeight, *weight_role(part));
  add_gradient(weight, Role::kDBias, *bias_role(part));
  add_workspace(weight);
  return dx;
}

BufferId ModelBuilder::dropout_backward(int layer, Site site, BufferId dy) {
  if (!has_dropout()) return dy;
  const BufferId dx =
      gradient(prefix(layer) + std::string(site_name(site)), shape_.tokens() * spec().hidden);
  emit(Op::kBackward, Part::kDropout, layer,
       {use(Role::kSamples, Access::kRead, samples_), use(Role::kDy, Access::kRead, dy),
        use(Role::kDx, Access::kWrite, dx)})
      .site = site;
  return dx;
}

BufferId ModelBuilder::attention_backward(int layer, const LayerBuffers& at, BufferId d_out) {
  const ModelSpec& spec = model_.spec();
  const std::int64_t tokens = shape_.tokens();
  const std::string name = prefix(layer);
  const BufferId dq = gradient(name + "q", tokens * spec.q_width());
  const KeyRanges d_keys = keys_and_values("d_" + name);
  Instruction& attn = emit(Op::kBackward, Part::kAttn, layer,
                           {use(Role::kQ, Access::kRead, at.q),
                            {Role::kK, Access::kRead, at.keys.k},
                            {Role::kV, Access::kRead, at.keys.v},
                            use(Role::kY, Access::kRead, at.o),
                            use(Role::kLse, Access::kRead, at.lse),
                            use(Role::kDy, Access::kRead, d_out),
                            use(Role::kDq, Access::kWrite, dq),
                            {Role::kDk, Access::kWrite, d_keys.k},
                            {Role::kDv, Access::kWrite, d_keys.v}});
  if (has_dropout()) {
    attn.site = Site::kAttnProbs;
    attn.uses.push_back(use(Role::kSamples, Access::kRead, samples_));
  }
  add_workspace(attn);

  const BufferId d_qkv = gradient(name + "qkv", tokens * spec.qkv_width());
  Instruction& rope = emit(Op::kBackward, Part::kRope, layer,
                           {use(Role::kDq, Access::kRead, dq),
                            {Role::kDk, Access::kRead, d_keys.k},
                            {Role::kDv, Access::kRead, d_keys.v}});
  if (spec.is_llama()) {
    rope.uses.push_back(use(Role::kCos, Access::kRead, *program_.find_buffer("rope.cos")));
    rope.uses.push_back(use(Role::kSin, Access::kRead, *program_.find_buffer("rope.sin")));
  }
  if (spec.qk_norm) rope.uses.push_back(use(Role::kX, Access::kRead, at.qkv));
  add_parameter(rope, Role::kQNorm, ParameterRole::kQNormWeight);
  add_parameter(rope, Role::kKNorm, ParameterRole::kKNormWeight);
  rope.uses.push_back(use(Role::kDx, Access::kWrite, d_qkv));
  add_gradient(rope, Role::kDQNorm, ParameterRole::kQNormWeight);
  add_gradient(rope, Role::kDKNorm, ParameterRole::kKNormWeight);
  add_workspace(rope);
  return d_qkv;
}

void ModelBuilder::layer_backward(int layer) {
  const ModelSpec& spec = model_.spec();
  const LayerBuffers& at = layers_.at(static_cast<std::size_t>(layer));
  const BufferId d_down = dropout_backward(layer, Site::kMlpResidual, d_stream_);
  const BufferId d_act = linear_backward(Part::kMlpDown, layer, d_down, at.act, spec.ffn);
  const BufferId d_up = gradient(prefix(layer) + "mlp_up", shape_.tokens() * spec.up_width());
  emit(Op::kBackward, Part::kAct, layer,
       {use(Role::kDy, Access::kRead, d_act), use(Role::kX, Access::kRead, at.up),
        use(Role::kDx, Access::kWrite, d_up)});
  const BufferId d_mlp_norm = linear_backward(Part::kMlpUp, layer, d_up, at.mlp_norm, spec.hidden);
  norm_backward(Part::kMlpNorm, layer, d_mlp_norm, {at.mlp_h, at.mlp_norm, at.mlp_stats});

  const BufferId d_proj = dropout_backward(layer, Site::kAttnResidual, d_stream_);
  const BufferId d_attn = linear_backward(Part::kProj, layer, d_proj, at.o, spec.q_width());
  const BufferId d_qkv = attention_backward(layer, at, d_attn);
  const BufferId d_attn_norm = linear_backward(Part::kQkv, layer, d_qkv, at.attn_norm, spec.hidden);
  norm_backward(Part::kAttnNorm, layer, d_attn_norm, {at.h, at.attn_norm, at.attn_stats});
}

}  // namespace trireme
