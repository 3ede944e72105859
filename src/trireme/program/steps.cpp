#include "trireme/program/steps.h"

#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/groups.h"

namespace trireme {
namespace {

Instruction over_group(const Program& program, std::string_view group, Instruction instruction) {
  const Range& full = instruction.find(Role::kData)->range;
  const DType dtype = program.buffer(full.buffer).dtype;
  instruction.stream = stream_of(group);
  instruction.comm = Comm{.group = std::string(group),
                          .dtype = dtype,
                          .elems = div_exact(full.bytes, dtype_bytes(dtype))};
  return instruction;
}

}  // namespace

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

Template& before_end_of_step(Program& program, std::string_view name) {
  const bool is_new = !program.find_template(name).has_value();
  const int index = program.template_index(name);
  end_of_step(program);
  if (is_new) program.calls.insert(program.calls.end() - 1, {.template_index = index});
  return program.at(index);
}

Instruction make(Op op, std::vector<Use> uses) {
  return {.op = op, .uses = std::move(uses)};
}

Instruction all_reduce(const Program& program, Range range, std::string_view group) {
  return over_group(program, group,
                    make(Op::kAllReduce, {{Role::kData, Access::kReadWrite, range}}));
}

Instruction sum_of_gradient(const Program& program, std::size_t row, std::string_view group) {
  Instruction sum = all_reduce(program, program.parameters[row].gradient, group);
  sum.parameter = narrow<int>(row);
  return sum;
}

Instruction reduce_scatter(const Program& program, Range full, Range own, std::string_view group) {
  return over_group(program, group,
                    make(Op::kReduceScatter, {{Role::kData, Access::kRead, full},
                                              {Role::kShard, Access::kWrite, own}}));
}

Instruction all_gather(const Program& program, Range own, Range full, std::string_view group) {
  return over_group(program, group,
                    make(Op::kAllGather, {{Role::kShard, Access::kRead, own},
                                          {Role::kData, Access::kWrite, full}}));
}

}  // namespace trireme
