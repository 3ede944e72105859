#include "trireme/program/steps.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"

namespace trireme {

Template& begin_of_step(Program& program) {
  const bool is_new = !program.find_template("begin").has_value();
  const int index = program.template_index("begin");
  if (is_new) program.calls.insert(program.calls.begin(), {.template_index = index});
  return program.at(index);
}

Template& end_of_step(Program& program) {
  const bool is_new = !program.find_template("end").has_value();
  const int index = program.template_index("end");
  if (is_new) program.calls.push_back({.template_index = index});
  return program.at(index);
}

int last_micro_template(const Program& program) {
  const auto found = std::find_if(program.calls.rbegin(), program.calls.rend(),
                                  [](const Call& call) { return call.micro_batch >= 0; });
  TRI_CHECK(found != program.calls.rend());
  return found->template_index;
}

Instruction make(Op op, std::vector<Use> uses) {
  return {.op = op, .uses = std::move(uses)};
}

Instruction all_reduce(const Program& program, Range range) {
  const DType dtype = program.buffer(range.buffer).dtype;
  Instruction instruction = make(Op::kAllReduce, {{Role::kData, Access::kReadWrite, range}});
  instruction.stream = Stream::kComm;
  instruction.comm =
      Comm{.group = "dp", .dtype = dtype, .elems = div_exact(range.bytes, dtype_bytes(dtype))};
  return instruction;
}

bool overlaps(const Range& a, const Range& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

int last_writer(const std::vector<Instruction>& instructions, const Range& range) {
  for (std::size_t i = instructions.size(); i-- > 0;) {
    const auto& uses = instructions[i].uses;
    if (std::any_of(uses.begin(), uses.end(),
                    [&](const Use& use) { return use.writes() && overlaps(use.range, range); })) {
      return narrow<int>(i);
    }
  }
  return -1;
}

}  // namespace trireme
