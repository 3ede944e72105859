#include "trireme/program/text.h"

#include <cstddef>

#include <fmt/format.h>

#include "trireme/program/content_names.h"

namespace trireme {
namespace {

std::string range_text(const Program& program, const Range& range) {
  const Buffer& buffer = program.buffer(range.buffer);
  if (range.offset == 0 && range.bytes == buffer.bytes) return buffer.name;
  return fmt::format("{}[{}:{}]", buffer.name, range.offset, range.offset + range.bytes);
}

std::string model_text(const ModelSpec& spec) {
  return fmt::format(
      "family={} layers={} hidden={} heads={} kv_heads={} head_dim={} ffn={} vocab={} max_seq={} "
      "rope_base={} "
      "norm_eps={} tied={} qkv_bias={} qk_norm={} dropout={}",
      family_name(spec.family), spec.layers, spec.hidden, spec.heads, spec.kv_heads, spec.head_dim,
      spec.ffn, spec.vocab, spec.max_seq, spec.rope_base, spec.norm_eps, int{spec.tied},
      int{spec.qkv_bias}, int{spec.qk_norm}, spec.dropout);
}

std::string parameter_text(const Program& program, std::size_t row) {
  const ParameterSlot& slot = program.parameters[row];
  if (slot.parameter.buffer < 0) return fmt::format("parameter {} elsewhere", row);
  std::string text = fmt::format("parameter {} {}", row, range_text(program, slot.parameter));
  if (slot.gradient.buffer >= 0) text += " " + range_text(program, slot.gradient);
  if (slot.head_gradient) text += " " + range_text(program, *slot.head_gradient);
  return text;
}

std::string wait_text(const Wait& wait) {
  return fmt::format("{}-{}:{}", stream_name(wait.stream), wait.calls_back, wait.instruction);
}

std::string_view pool_name(const Program& program, int pool) {
  return program.pools.at(static_cast<std::size_t>(pool)).name;
}

std::string call_text(const Program& program, const Call& call) {
  std::string text = fmt::format("call {}", program.at(call.template_index).name);
  if (call.micro_batch >= 0) text += fmt::format(" micro_batch={}", call.micro_batch);
  for (const CallFrame& at : call.frames) {
    text += fmt::format(" frame={}:{}", pool_name(program, at.pool), at.frame);
  }
  const char* separator = " | wait ";
  for (const CallWait& of_call : call.waits) {
    text += fmt::format("{}{}:{}", separator, of_call.instruction, wait_text(of_call.wait));
    separator = ", ";
  }
  return text;
}

}  // namespace

std::string instruction_text(const Program& program, const Instruction& instruction) {
  std::string text(op_name(instruction.op));
  if (instruction.part != Part::kNone) text += fmt::format(" {}", part_name(instruction.part));
  if (instruction.layer >= 0) text += fmt::format(" layer={}", instruction.layer);
  if (instruction.stage > 0) text += fmt::format(" stage={}", instruction.stage);
  if (instruction.chunk >= 0) text += fmt::format(" chunk={}", instruction.chunk);
  if (instruction.site != Site::kNone) text += fmt::format(" site={}", site_name(instruction.site));
  if (instruction.parameter >= 0) text += fmt::format(" parameter={}", instruction.parameter);
  text += fmt::format(" {}", stream_name(instruction.stream));
  const char* separator = " | ";
  for (const Use& use : instruction.uses) {
    text += fmt::format("{}{} {}={}", separator, access_name(use.access), role_name(use.role),
                        range_text(program, use.range));
    separator = ", ";
  }
  if (instruction.comm) {
    const Comm& comm = *instruction.comm;
    text += fmt::format(" | comm {} {} elems={}", comm.group, dtype_name(comm.dtype), comm.elems);
    if (comm.peer >= 0) text += fmt::format(" peer={}", comm.peer);
    if (comm.source >= 0) text += fmt::format(" from={}", comm.source);
    if (comm.peer >= 0) text += fmt::format(" tag={}", comm.tag);
    if (comm.is_max) text += " max";
  }
  separator = " | wait ";
  for (const Wait& wait : instruction.waits) {
    text += separator + wait_text(wait);
    separator = ", ";
  }
  separator = " | free ";
  for (const BufferId id : instruction.frees) {
    text += fmt::format("{}{}", separator, program.buffer(id).name);
    separator = ", ";
  }
  return text;
}

std::string program_text(const Program& program) {
  const BuildRequest& request = program.request;
  std::string text = fmt::format(
      "program {} rank={} micro_batches={} decay_norms={} compute={} reduce={}\n",
      program_kind_name(program.kind), request.rank, program.num_micro_batches,
      int{request.decay_norms}, dtype_name(request.compute), dtype_name(request.reduce));
  text += fmt::format("model {}\n", model_text(request.spec));
  text += fmt::format("layout {}\n", layout_text(request.layout, request.batch));
  text +=
      fmt::format("batch seq={} global_batch={}\n", request.batch.seq, request.batch.global_batch);
  for (const FramePool& pool : program.pools) {
    text += fmt::format("pool {} frames={}\n", pool.name, pool.num_frames);
  }
  for (const Buffer& buffer : program.buffers) {
    text += fmt::format("buffer {} {} {} {} bytes={}", buffer.name, memory_kind_name(buffer.kind),
                        content_name(buffer.content), dtype_name(buffer.dtype), buffer.bytes);
    if (buffer.pool >= 0) text += fmt::format(" pool={}", pool_name(program, buffer.pool));
    text += "\n";
  }
  for (std::size_t row = 0; row < program.parameters.size(); ++row) {
    text += parameter_text(program, row) + "\n";
  }
  for (const Template& item : program.templates) {
    text += fmt::format("template {}\n", item.name);
    for (const Instruction& instruction : item.instructions) {
      text += "  " + instruction_text(program, instruction) + "\n";
    }
  }
  for (const Call& call : program.calls) text += call_text(program, call) + "\n";
  return text + "end\n";
}

}  // namespace trireme
