// Buckets: contiguous roots of gradients, filled in the order in which the backward pass completes
// them.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "trireme/base/units.h"
#include "trireme/layout/tp_shard.h"
#include "trireme/program/passes/passes.h"
#include "trireme/program/replicas.h"
#include "trireme/program/steps.h"

namespace trireme {
namespace {

/// The gradient waits for ranks of other groups before it is reduced over dp.
bool has_sums(const LocalModel& model, std::size_t row) {
  return !model.gradient_groups(row).empty();
}

/// By buffer: position in the step of its last write.
std::vector<int> last_writes(const Program& program) {
  std::vector<int> last(program.buffers.size(), -1);
  const std::vector<int> bases = call_bases(program);
  for_each_instruction(program, [&](const Call&, int c, const Instruction& instruction, int i) {
    for (const Use& use : instruction.uses) {
      if (!use.writes()) continue;
      last[static_cast<std::size_t>(use.range.buffer)] = bases[static_cast<std::size_t>(c)] + i;
    }
  });
  return last;
}

/// Rows of one layer have one number: ZeRO-3 gathers them together. The embedding, a tied table,
/// and what follows the layers have theirs.
int unit_of(const ModelSpec& spec, const Parameter& parameter) {
  constexpr int kTiedTable = -1, kEmbedding = -2, kEnd = -3;
  if (parameter.layer) return narrow<int>(*parameter.layer);
  if (parameter.role == ParameterRole::kTokenTable) return spec.tied ? kTiedTable : kEmbedding;
  return parameter.role == ParameterRole::kPositionTable ? kEmbedding : kEnd;
}

/// Rows of the rank by ascending position of their last gradient write. Those whose gradients are
/// summed over other groups first come later, and frozen rows last. With ZeRO-3 unit by unit.
std::vector<std::size_t> completion_order(const Program& program, const LocalModel& model) {
  const std::vector<int> last = last_writes(program);
  std::vector<std::size_t> order;
  for (std::size_t row = 0; row < program.parameters.size(); ++row) {
    if (program.holds(row)) order.push_back(row);
  }
  // Mirrored ranks complete their stages at different times, but reduce the same bytes.
  const bool is_mirrored = model.pipeline().is_bidirectional();
  const auto key = [&](std::size_t row) {
    const BufferId gradient = program.parameters[row].gradient.buffer;
    const int position = gradient < 0  ? std::numeric_limits<int>::max()
                         : is_mirrored ? -narrow<int>(row)
                                       : last[static_cast<std::size_t>(gradient)];
    return std::tuple(gradient < 0, !is_mirrored && has_sums(model, row), position);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  if (!gathers_parameters(program.request)) return order;
  std::map<int, std::size_t> last_of_unit;
  const auto unit = [&](std::size_t row) { return unit_of(program.request.spec, model.row(row)); };
  for (std::size_t i = 0; i < order.size(); ++i) last_of_unit[unit(order[i])] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return last_of_unit.at(unit(a)) < last_of_unit.at(unit(b));
  });
  return order;
}

constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// Elements whose gradients fill a bucket.
std::int64_t bucket_capacity(const BuildRequest& request) {
  const Layout& layout = request.layout;
  const bool is_one = layout.dp * layout.cp == 1 || layout.dp_sync == DpSync::kNaive;
  if (is_one || gathers_parameters(request)) return kUnlimited;
  const double bytes = layout.bucket_mib * kMib;
  return std::max<std::int64_t>(
      1, div_ceil(static_cast<std::int64_t>(bytes), dtype_bytes(DType::kF32)));
}

/// Of the largest shard of a row: where vocab does not divide by tp, that of the last tp rank.
std::int64_t most_elems(const Program& program, const LocalModel& model, std::size_t row) {
  const int tp = program.request.layout.tp;
  return tp_shard(program.request.spec, model.row(row), tp, tp - 1).num_elems();
}

/// Rows of different keys do not share a bucket: a bucket that is reduced at once is complete
/// within one stage's backward pass, and ZeRO-3 gathers unit by unit.
std::tuple<bool, int, int> bucket_key(const Program& program, const LocalModel& model,
                                      std::size_t row) {
  const bool is_at_once = model.is_reduced_at_once(row);
  const bool is_gathered = gathers_parameters(program.request);
  return {is_at_once, is_at_once ? model.stages_of_row(row).front() : 0,
          is_gathered ? unit_of(program.request.spec, model.row(row)) : 0};
}

/// The ranks of a tp group close their buckets behind the same rows, whatever their shards: they
/// make the same reductions.
ParameterRoots fill_buckets(const Program& program, const LocalModel& model) {
  const std::int64_t capacity = bucket_capacity(program.request);
  ParameterRoots roots;
  roots.rows.resize(program.parameters.size());
  std::int64_t elems_of_largest = 0;
  bool has_begun_sums = false;
  std::tuple<bool, int, int> open_key;
  for (const std::size_t row : completion_order(program, model)) {
    // A bucket that waits for other groups keeps none waiting that does not.
    const bool begins_sums = !has_begun_sums && has_sums(model, row) && capacity != kUnlimited;
    has_begun_sums = has_begun_sums || begins_sums;
    const auto row_key = bucket_key(program, model, row);
    const bool is_of_others = std::exchange(open_key, row_key) != row_key;
    if (roots.elems.empty() || elems_of_largest >= capacity || begins_sums || is_of_others) {
      roots.elems.push_back(0);
      elems_of_largest = 0;
    }
    roots.rows[row] = {.root = narrow<int>(roots.elems.size()) - 1, .offset = roots.elems.back()};
    roots.elems.back() += num_elems(program, program.parameters[row].parameter);
    elems_of_largest += most_elems(program, model, row);
  }
  return roots;
}

/// The padding that makes a root divisible into aligned shards is zero, so that reductions read
/// defined bytes. (Where buckets share memory, later what another has left: nobody reads its sum.)
void zero_padding(Program& program, const std::vector<std::int64_t>& used_elems) {
  for (std::size_t root = 0; root < used_elems.size(); ++root) {
    const BufferId grads = *program.find_buffer(root_name("grads", narrow<int>(root)));
    const std::int64_t used_bytes = used_elems[root] * dtype_bytes(program.buffer(grads).dtype);
    const std::int64_t padding = program.buffer(grads).bytes - used_bytes;
    if (padding == 0) continue;
    begin_of_step(program).instructions.push_back(
        make(Op::kZero, {{Role::kY, Access::kWrite, {grads, used_bytes, padding}}}));
  }
}

}  // namespace

void bucket(Program& program, const LocalModel& model) {
  ParameterRoots roots = fill_buckets(program, model);
  const std::vector<std::int64_t> used_elems = roots.elems;
  const Replicas replicas = replicas_of(program.request);
  const int num_parts = replicas.is_sharded() ? replicas.num_shards : replicas.size;
  for (std::int64_t& elems : roots.elems) elems = round_up(elems, root_unit(program) * num_parts);
  move_into_roots(program, roots);
  zero_padding(program, used_elems);
}

}  // namespace trireme
