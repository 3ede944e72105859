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
      : program_(program), replicas_(replicas_of(program.request)), roots_(roots_of(program)) {}

  void apply() {
    for (Template& item : program_.templates) scatter_reductions(item);
    for (Buffer& buffer : program_.buffers) {
      if (is_optimizer_state(buffer.kind))
        buffer.bytes = div_exact(buffer.bytes, replicas_.num_shards);
    }
    Template& end = end_of_step(program_);
    std::vector<Instruction> sharded;
    int open_root = -1;
    for (Instruction& instruction : end.instructions) {
      if (instruction.op == Op::kClip)
        sharded.push_back(all_reduce(program_, instruction.find(Role::kNormSquare)->range,
                                     replicas_.shard_group));
      if (instruction.op == Op::kOptStep)
        gather_when_left(sharded, open_root, row_of(instruction).root);
      if (keep_own_shard(instruction)) sharded.push_back(std::move(instruction));
    }
    gather_when_left(sharded, open_root, -1);
    end.instructions = std::move(sharded);
  }

 private:
  [[nodiscard]] Range own_range(BufferId whole) const {
    const Shard own = shard_of(program_.buffer(whole).bytes, replicas_.num_shards, replicas_.shard);
    return {whole, own.begin, own.end - own.begin};
  }
  [[nodiscard]] const ParameterRoots::Row& row_of(const Instruction& instruction) const {
    return roots_.rows.at(static_cast<std::size_t>(instruction.parameter));
  }

  /// ALL_REDUCE of a gradient root -> REDUCE_SCATTER into the own shard of the same root, and the
  /// sum over the copies of that shard.
  void scatter_reductions(Template& item) const {
    std::vector<Instruction> scattered;
    for (Instruction& instruction : item.instructions) {
      const bool is_reduction =
          instruction.op == Op::kAllReduce && instruction.comm->group == replicas_.group &&
          program_.buffer(instruction.uses.front().range.buffer).kind == MemoryKind::kGradients;
      if (!is_reduction) {
        scattered.push_back(std::move(instruction));
        continue;
      }
      const Range root = instruction.uses.front().range;
      const Range own = own_range(root.buffer);
      const auto add = [&](Instruction sum) {
        sum.comm->dtype = instruction.comm->dtype;
        scattered.push_back(std::move(sum));
      };
      add(reduce_scatter(program_, root, own, replicas_.shard_group));
      if (!replicas_.copy_group.empty()) add(all_reduce(program_, own, replicas_.copy_group));
    }
    item.instructions = std::move(scattered);
  }

  /// Cuts an instruction on a row to the own shard; false if nothing is left of it.
  bool keep_own_shard(Instruction& instruction) const {
    if (instruction.op != Op::kNormSquare && instruction.op != Op::kOptStep) return true;
    const ParameterRoots::Row& row = row_of(instruction);
    const Shard all =
        elems_of_row(program_, roots_, static_cast<std::size_t>(instruction.parameter));
    const Shard own = shard_of(roots_.elems[static_cast<std::size_t>(row.root)],
                               replicas_.num_shards, replicas_.shard);
    const Shard elems{.begin = std::max(all.begin, own.begin), .end = std::min(all.end, own.end)};
    if (elems.begin >= elems.end) return false;
    for (Use& use : instruction.uses) {
      if (const auto part = part_of(instruction.op, use.role, row.root))
        use.range = *range_in(program_, *part, elems);
    }
    return true;
  }

  /// Nothing for scalars.
  [[nodiscard]] std::optional<RootPart> part_of(Op op, Role role, int root) const {
    switch (role) {
      case Role::kParameter:
        return root_part(program_, "params", root);
      case Role::kMoment1:
        return root_part(program_, "moments1", root);
      case Role::kMoment2:
        return root_part(program_, "moments2", root);
      case Role::kMaster:
        return root_part(program_, "master", root);
      case Role::kGradient:
        return reduced_gradients(program_, root);
      case Role::kX:
        return op == Op::kNormSquare ? reduced_gradients(program_, root) : std::nullopt;
      default:
        return std::nullopt;
    }
  }

  /// Once the optimizer has left a root, its parameters are gathered.
  void gather_when_left(std::vector<Instruction>& out, int& open_root, int next_root) const {
    if (open_root >= 0 && open_root != next_root && !gathers_parameters(program_.request)) {
      const BufferId params = *program_.find_buffer(root_name("params", open_root));
      out.push_back(
          all_gather(program_, own_range(params), program_.whole(params), replicas_.shard_group));
    }
    open_root = next_root;
  }

  Program& program_;
  Replicas replicas_;
  ParameterRoots roots_;
};

}  // namespace

void shard_optimizer(Program& program) {
  OptimizerSharding(program).apply();
}

}  // namespace trireme
