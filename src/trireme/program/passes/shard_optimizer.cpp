// ZeRO-1: each replica reduces, updates and keeps moments (and masters) for its own shard of every
// bucket.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "trireme/base/units.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

class OptimizerSharding {
 public:
  explicit OptimizerSharding(Program& program)
      : program_(program), replicas_(replicas_of(program.request)) {}

  void apply() {
    for (Template& item : program_.templates) scatter_reductions(item);
    Template& end = end_of_step(program_);
    std::vector<Instruction> sharded;
    int open_root = -1;
    for (Instruction& instruction : end.instructions) {
      if (instruction.op == Op::kClip)
        sharded.push_back(all_reduce(program_, instruction.find(Role::kNormSquare)->range,
                                     replicas_.shard_group));
      if (instruction.op == Op::kOptStep)
        gather_when_left(sharded, open_root, root_of(instruction));
      if (keep_own_shard(instruction)) sharded.push_back(std::move(instruction));
    }
    gather_when_left(sharded, open_root, -1);
    end.instructions = std::move(sharded);
    for (Buffer& buffer : program_.buffers) {
      if (is_optimizer_state(buffer.kind))
        buffer.bytes = div_exact(buffer.bytes, replicas_.num_shards);
    }
  }

 private:
  /// Bytes of a buffer as elements.
  [[nodiscard]] Shard elems_of(BufferId id, Shard bytes) const {
    const std::int64_t elem_bytes = dtype_bytes(program_.buffer(id).dtype);
    return {.begin = bytes.begin / elem_bytes, .end = bytes.end / elem_bytes};
  }
  [[nodiscard]] Shard own_shard(BufferId root) const {
    return shard_of(program_.buffer(root).bytes, replicas_.num_shards, replicas_.shard);
  }
  [[nodiscard]] Range own_range(BufferId root) const {
    const Shard own = own_shard(root);
    return {root, own.begin, own.end - own.begin};
  }

  /// ALL_REDUCE of a gradient root -> REDUCE_SCATTER into the own shard of the same root, and the
  /// sum over the copies of that shard.
  void scatter_reductions(Template& item) const {
    std::vector<Instruction> scattered;
    for (Instruction& instruction : item.instructions) {
      const Use& root = instruction.uses.front();
      const bool is_reduction = instruction.op == Op::kAllReduce &&
                                instruction.comm->group == replicas_.group &&
                                program_.buffer(root.range.buffer).kind == MemoryKind::kGradients;
      if (!is_reduction) {
        scattered.push_back(std::move(instruction));
        continue;
      }
      const Range own = own_range(root.range.buffer);
      const auto add = [&](Instruction sum) {
        sum.comm->dtype = instruction.comm->dtype;
        scattered.push_back(std::move(sum));
      };
      add(reduce_scatter(program_, root.range, own, replicas_.shard_group));
      if (!replicas_.copy_group.empty()) add(all_reduce(program_, own, replicas_.copy_group));
    }
    item.instructions = std::move(scattered);
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
                               replicas_.shard_group));
    }
    open_root = next_root;
  }

  Program& program_;
  Replicas replicas_;
};

}  // namespace

void shard_optimizer(Program& program) {
  OptimizerSharding(program).apply();
}

}  // namespace trireme
