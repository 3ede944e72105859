#include "trireme/execute/program_traffic.h"

#include <algorithm>
#include <vector>

#include "trireme/base/errors.h"
#include "trireme/comm/traffic.h"
#include "trireme/program/groups.h"

namespace trireme {
namespace {

CommOp comm_op_of(Op op) {
  switch (op) {
    case Op::kAllReduce:
      return CommOp::kAllReduce;
    case Op::kReduceScatter:
      return CommOp::kReduceScatter;
    case Op::kAllGather:
      return CommOp::kAllGather;
    case Op::kSend:
    case Op::kExchange:  // what it receives costs the sender
      return CommOp::kSend;
    case Op::kRecv:
      return CommOp::kRecv;
    default:
      TRI_CHECK(false && "not a communication");
      return CommOp::kBarrier;
  }
}

}  // namespace

GroupBytes program_bytes_sent(const Program& program) {
  GroupBytes bytes;
  for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
    if (!instruction.comm) return;
    const std::vector<int> ranks = group_ranks(program.request, instruction.comm->group);
    const auto own = std::find(ranks.begin(), ranks.end(), program.request.rank);
    bytes[instruction.comm->group] +=
        bytes_sent({.op = comm_op_of(instruction.op),
                    .num_elems = instruction.comm->elems,
                    .elem_bytes = dtype_bytes(instruction.comm->dtype),
                    .size = static_cast<int>(ranks.size()),
                    .rank = static_cast<int>(own - ranks.begin())});
  });
  return bytes;
}

}  // namespace trireme
