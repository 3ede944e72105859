// The JSON form of a program.
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include "trireme/program/content_names.h"
#include "trireme/program/text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json uses_json(const Program& program, const Instruction& instruction) {
  Json uses = Json::array();
  for (const Use& use : instruction.uses) {
    uses.push_back({{"role", role_name(use.role)},
                    {"mode", access_name(use.access)},
                    {"buffer", program.buffer(use.range.buffer).name},
                    {"offset", use.range.offset},
                    {"bytes", use.range.bytes}});
  }
  return uses;
}

Json waits_json(const Call& call, const Instruction& instruction, int index) {
  Json waits = Json::array();
  for_each_wait(call, instruction, index, [&](const Wait& wait) {
    waits.push_back({{"stream", stream_name(wait.stream)},
                     {"calls_back", wait.calls_back},
                     {"instruction", wait.instruction}});
  });
  return waits;
}

Json comm_json(const Call& call, const Instruction& instruction) {
  if (!instruction.comm) return nullptr;
  const Comm& comm = *instruction.comm;
  Json json = {{"group", comm.group}, {"dtype", dtype_name(comm.dtype)}, {"elems", comm.elems}};
  if (comm.peer >= 0) {
    json["peer"] = comm.peer;
    if (comm.source >= 0) json["from"] = comm.source;
    json["tag"] = message_tag(call, comm);
  }
  if (comm.is_max) json["max"] = true;
  return json;
}

Json instruction_json(const Program& program, const Call& call, int call_index,
                      const Instruction& instruction, int index) {
  const auto or_null = [](int value) { return value >= 0 ? Json(value) : Json(nullptr); };
  return {
      {"op", op_name(instruction.op)},
      {"stage", instruction.stage},
      {"part", instruction.part == Part::kNone ? Json(nullptr) : Json(part_name(instruction.part))},
      {"layer", or_null(instruction.layer)},
      {"chunk", or_null(instruction.chunk)},
      {"site", instruction.site == Site::kNone ? Json(nullptr) : Json(site_name(instruction.site))},
      {"parameter", or_null(instruction.parameter)},
      {"mb", or_null(call.micro_batch)},
      {"stream", stream_name(instruction.stream)},
      {"call", call_index},
      {"index", index},
      {"uses", uses_json(program, instruction)},
      {"waits", waits_json(call, instruction, index)},
      {"comm", comm_json(call, instruction)}};
}

}  // namespace

std::string program_json(const Program& program) {
  Json buffers = Json::array();
  for (const Buffer& buffer : program.buffers) {
    buffers.push_back({{"name", buffer.name},
                       {"kind", memory_kind_name(buffer.kind)},
                       {"content", content_name(buffer.content)},
                       {"dtype", dtype_name(buffer.dtype)},
                       {"bytes", buffer.bytes}});
  }
  Json instructions = Json::array();
  for_each_instruction(program,
                       [&](const Call& call, int c, const Instruction& instruction, int i) {
                         instructions.push_back(instruction_json(program, call, c, instruction, i));
                       });
  const Json json = {{"kind", program_kind_name(program.kind)},
                     {"rank", program.request.rank},
                     {"layout", layout_text(program.request.layout, program.request.batch)},
                     {"micro_batches", program.num_micro_batches},
                     {"buffers", std::move(buffers)},
                     {"instructions", std::move(instructions)}};
  return json.dump(1) + "\n";
}

}  // namespace trireme
