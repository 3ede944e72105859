// ZeRO-1: each dp rank reduces, updates and keeps moments (and masters) for its own shard of every
// bucket.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

class OptimizerSharding {
 public:
  explicit OptimizerSharding(Program& program)
      : program_(program),
        dp_(program.request.layout.dp),
        dp_rank_(program.request.layout.mesh().coord_of(program.request.rank).dp) {}

  void apply() {
    for (Template& item : program_.templates) {
      for (Instruction& instruction : item.instructions) scatter_reduction(instruction);
    }
    Template& end = end_of_step(program_);
    std::vector<Instruction> sharded;
    int open_root = -1;
    for (Instruction& instruction : end.instructions) {
      if (instruction.op == Op::kClip)
        sharded.push_back(
            all_reduce(program_, instruction.find(Role::kNormSquare)->range, axis_name(Axis::kDp)));
      if (instruction.op == Op::kOptStep)
        gather_when_left(sharded, open_root, root_of(instruction));
      if (keep_own_shard(instruction)) sharded.push_back(std::move(instruction));
    }
    gather_when_left(sharded, open_root, -1);
    end.instructions = std::move(sharded);
    for (Buffer& buffer : program_.buffers) {
      if (is_optimizer_state(buffer.kind)) buffer.bytes = div_exact(buffer.bytes, dp_);
    }
  }

 private:
  /// Bytes of a buffer as elements.
  [[nodiscard]] Shard elems_of(BufferId id, Shard bytes) const {
    const std::int64_t elem_bytes = dtype_bytes(program_.buffer(id).dtype);
    return {.begin = bytes.begin / elem_bytes, .end = bytes.end / elem_bytes};
  }
  [[nodiscard]] Shard own_shard(BufferId root) const {
    return shard_of(program_.buffer(root).bytes, dp_, dp_rank_);
  }
  [[nodiscard]] Range own_range(BufferId root) const {
    const Shard own = own_shard(root);
    return {root, own.begin, own.end - own.begin};
  }

  /// ALL_REDUCE of a gradient root -> REDUCE_SCATTER into the own shard of the same root.
  void scatter_reduction(Instruction& instruction) const {
    if (instruction.op != Op::kAllReduce || instruction.comm->group != axis_name(Axis::kDp)) return;
    const Range root = instruction.uses.front().range;
    if (program_.buffer(root.buffer).kind != MemoryKind::kGradients) return;
    instruction.op = Op::kReduceScatter;
    instruction.uses = {{Role::kData, Access::kRead, root},
                        {Role::kShard, Access::kWrite, own_range(root.buffer)}};
  }

  [[nodiscard]] static BufferId root_of(const Instruction& opt_step) {
    return opt_step.find(Role::kParameter)->range.buffer;
  }

  /// Cuts an instruction on a parameter's range to the own shard; false if nothing is left of it.
  bool keep_own_shard(Instruction& instruction) const {
    if (instruction.op != Op::kNormSquare && instruction.op != Op::kOptStep) return true;
    const Role role = instruction.op == Op::kNormSquare ? Role::kX : Role::kParameter;
    const Range range = instruction.find(role)->range;
    const Shard own = elems_of(range.buffer, own_shard(range.buffer));
    const Shard all = elems_of(range.buffer, {range.offset, range.offset + range.bytes});
    const std::int64_t begin = std::max(all.begin, own.begin);
    const std::int64_t end = std::min(all.end, own.end);
    if (begin >= end) return false;
    for (Use& use : instruction.uses) {
      const Buffer& buffer = program_.buffer(use.range.buffer);
      if (buffer.kind == MemoryKind::kWorkspace) continue;  // scalars
      const std::int64_t origin = is_optimizer_state(buffer.kind) ? own.begin : 0;
      const std::int64_t elem_bytes = dtype_bytes(buffer.dtype);
      use.range = {use.range.buffer, (begin - origin) * elem_bytes, (end - begin) * elem_bytes};
    }
    return true;
  }

  /// Once the optimizer has left a root, its parameters are gathered.
  void gather_when_left(std::vector<Instruction>& out, BufferId& open_root,
                        BufferId next_root) const {
    if (open_root >= 0 && open_root != next_root) {
      out.push_back(all_gather(program_, own_range(open_root), program_.whole(open_root),
                               axis_name(Axis::kDp)));
    }
    open_root = next_root;
  }

  Program& program_;
  int dp_;
  int dp_rank_;
};

}  // namespace

void shard_optimizer(Program& program) {
  OptimizerSharding(program).apply();
}

}  // namespace trireme
