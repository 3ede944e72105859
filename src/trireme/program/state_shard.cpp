#include "trireme/program/state_shard.h"

#include "trireme/base/errors.h"
#include "trireme/program/replicas.h"

namespace trireme {
namespace {

/// The first ZeRO stage under which a rank has no more than its own shard complete.
int first_zero_of(MemoryKind kind) {
  if (is_optimizer_state(kind) || kind == MemoryKind::kGradients) return 1;
  TRI_CHECK(kind == MemoryKind::kParameters);
  return 3;
}

}  // namespace

StateShard state_shard(const Layout& layout, int rank, MemoryKind kind) {
  const Replicas replicas = replicas_of(layout, rank);
  if (layout.zero < first_zero_of(kind)) return {.is_first_copy = replicas.rank == 0};
  return {.num_shards = replicas.num_shards,
          .index = replicas.shard,
          .is_first_copy = replicas.rank < replicas.num_shards};
}

}  // namespace trireme
