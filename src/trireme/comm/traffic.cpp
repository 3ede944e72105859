#include "trireme/comm/traffic.h"

#include <algorithm>

#include "trireme/base/errors.h"

namespace trireme {

std::string_view comm_op_name(CommOp op) {
  switch (op) {
    case CommOp::kSend:
      return "send";
    case CommOp::kRecv:
      return "recv";
    case CommOp::kBarrier:
      return "barrier";
    case CommOp::kBroadcast:
      return "broadcast";
    case CommOp::kScatter:
      return "scatter";
    case CommOp::kGather:
      return "gather";
    case CommOp::kReduce:
      return "reduce";
    case CommOp::kAllReduce:
      return "all_reduce";
    case CommOp::kReduceScatter:
      return "reduce_scatter";
    case CommOp::kAllGather:
      return "all_gather";
    case CommOp::kAllToAll:
      return "all_to_all";
  }
  TRI_CHECK(!"a CommOp");
  return {};
}

ElemRange cut_elems(std::int64_t num_elems, int size, int rank) {
  TRI_CHECK(num_elems >= 0 && rank >= 0 && rank < size);
  const std::int64_t least = num_elems / size;
  const std::int64_t num_longer = num_elems % size;
  return {.begin = rank * least + std::min<std::int64_t>(rank, num_longer),
          .count = least + (rank < num_longer ? 1 : 0)};
}

std::int64_t bytes_sent(const CommCall& call) {
  const std::int64_t full = call.num_elems * call.elem_bytes;
  const std::int64_t own = cut_elems(call.num_elems, call.size, call.rank).count * call.elem_bytes;
  const std::int64_t num_peers = call.size - 1;
  const bool is_root = call.rank == call.root;
  switch (call.op) {
    case CommOp::kBarrier:
    case CommOp::kRecv:
      return 0;
    case CommOp::kSend:
      return full;
    case CommOp::kBroadcast:
      return is_root ? full * num_peers : 0;
    case CommOp::kScatter:
      return is_root ? full - own : 0;
    case CommOp::kGather:
      return is_root ? 0 : own;
    case CommOp::kReduce:
      return is_root ? full - own : full;
    case CommOp::kReduceScatter:
    case CommOp::kAllToAll:
      return full - own;
    case CommOp::kAllGather:
      return own * num_peers;
    case CommOp::kAllReduce:
      return full - own + own * num_peers;
  }
  TRI_CHECK(!"a CommOp");
  return 0;
}

int message_steps(CommOp op, int size) {
  switch (op) {
    case CommOp::kSend:
    case CommOp::kRecv:
      return 1;
    case CommOp::kReduce:
    case CommOp::kAllReduce:
      return 2 * (size - 1);
    default:
      return size - 1;
  }
}

}  // namespace trireme
