// Roots: the contiguous buffers (buckets) that hold parameters, gradients and moments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// Alignment of every buffer in the arena and of every shard of a root.
inline constexpr std::int64_t kAlignBytes = 64;

/// Where each row of the parameter table lives, shared by all programs of one arena.
struct ParameterRoots {
  struct Row {
    int root = -1;            ///< -1: the rank does not hold the row
    std::int64_t offset = 0;  ///< elements
  };
  std::vector<std::int64_t> elems;  ///< of each root, padding included
  std::vector<Row> rows;            ///< by row of the parameter table
};

/// Bytes or elements [begin, end) of the shard of `rank` in `extent` of them divided over
/// `num_ranks`.
struct Shard {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
[[nodiscard]] Shard shard_of(std::int64_t extent, int num_ranks, int rank);

/// A root, and each shard of it, is a multiple of this many elements: whatever their type, its
/// buffers are aligned.
[[nodiscard]] std::int64_t root_unit(const Program& program);

/// All parameters in one root, in table order: for programs that do not train.
[[nodiscard]] ParameterRoots single_root(const Program& program);

/// The roots that `program` uses.
[[nodiscard]] ParameterRoots roots_of(const Program& program);

/// Replaces the buffers "param.NAME" (and "grad.NAME") by ranges of roots "params.K" (and
/// "grads.K").
void move_into_roots(Program& program, const ParameterRoots& roots);

/// Rewrites every operand through `moved`, by buffer, and drops the buffers that have moved (those
/// with a target).
void move_buffers(Program& program, const std::vector<Range>& moved);

/// Elements of a row in its root.
[[nodiscard]] Shard elems_of_row(const Program& program, const ParameterRoots& roots,
                                 std::size_t row);

/// The buffer that has all of a root's parameters: "params.K", or with ZeRO-3 "gathered.K", which
/// has them for a while.
[[nodiscard]] BufferId whole_params(const Program& program, int root);

/// Number of roots, and their names.
[[nodiscard]] int num_roots(const Program& program);
[[nodiscard]] std::string root_name(std::string_view kind, int root);  // "params.0"

/// Rows of the parameter table that the rank holds, by (root, offset): the order in which gradients
/// are completed.
[[nodiscard]] std::vector<std::size_t> rows_in_root_order(const Program& program);

/// A buffer that has elements of a root: all of them, or this rank's shard.
struct RootPart {
  BufferId buffer = -1;
  Shard elems;  ///< of the root
};
/// The buffer `kind`.`root` ("params", "master", "moments1", "moments2", "grads", "grad_shards");
/// nothing if the program has none.
[[nodiscard]] std::optional<RootPart> root_part(const Program& program, std::string_view kind,
                                                int root);
/// Where a part has elements [begin, end) of its root; nothing if it has none of them.
[[nodiscard]] std::optional<Range> range_in(const Program& program, const RootPart& part,
                                            Shard elems);
/// The root's gradients of each micro-batch are reduced into a shard of their own at once.
[[nodiscard]] bool is_reduced_at_once(const Program& program, int root);
/// Where this rank's reduced gradients of a root are.
[[nodiscard]] std::optional<RootPart> reduced_gradients(const Program& program, int root);

}  // namespace trireme
