#include "trireme/program/program.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"

namespace trireme {

std::string_view memory_kind_name(MemoryKind kind) {
  constexpr std::array<std::string_view, kNumMemoryKinds> kNames = {
      "parameters", "master",      "moments",       "gradients",
      "packed",     "activations", "communication", "workspace"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string_view program_kind_name(ProgramKind kind) {
  constexpr std::array<std::string_view, 4> kNames = {"train", "eval", "prefill", "decode"};
  return kNames.at(static_cast<std::size_t>(kind));
}

int Call::frame_of(int pool) const {
  for (const CallFrame& at : frames) {
    if (at.pool == pool) return at.frame;
  }
  return 0;
}

std::optional<BufferId> Program::find_buffer(std::string_view name) const {
  return buffer_index.find(name);
}

BufferId Program::add_buffer(Buffer buffer) {
  const auto id = static_cast<BufferId>(buffers.size());
  buffer_index.add(buffer.name, id);
  buffers.push_back(std::move(buffer));
  return id;
}

void Program::set_buffers(std::vector<Buffer> all) {
  buffers.clear();
  buffer_index = {};
  for (Buffer& buffer : all) add_buffer(std::move(buffer));
}

std::optional<int> Program::find_template(std::string_view name) const {
  const auto found = std::find_if(templates.begin(), templates.end(),
                                  [name](const Template& item) { return item.name == name; });
  if (found == templates.end()) return std::nullopt;
  return static_cast<int>(found - templates.begin());
}

int Program::template_index(std::string_view name) {
  if (const auto found = find_template(name)) return *found;
  templates.push_back({.name = std::string(name), .instructions = {}});
  return static_cast<int>(templates.size()) - 1;
}

std::int64_t num_elems(const Program& program, const Range& range) {
  if (range.buffer < 0) return 0;
  return range.bytes / dtype_bytes(program.buffer(range.buffer).dtype);
}

int message_tag(const Call& call, const Comm& comm) {
  return comm.tag + std::max(call.micro_batch, 0);
}

std::vector<int> call_bases(const Program& program) {
  std::vector<int> bases = {0};
  for (const Call& call : program.calls) {
    bases.push_back(bases.back() +
                    narrow<int>(program.at(call.template_index).instructions.size()));
  }
  return bases;
}

std::int64_t Program::num_instructions() const {
  std::int64_t total = 0;
  for (const Call& call : calls) {
    total += static_cast<std::int64_t>(at(call.template_index).instructions.size());
  }
  return total;
}

}  // namespace trireme
