// Which shard of each kind of state a rank hands over to a checkpoint (ZeRO, arXiv:1910.02054).
#pragma once

#include "trireme/program/program.h"

namespace trireme {

/// One rank's shard of a kind of state. The ranks that hold the same parameters (replicas), or each
/// group of layout.dp_shard of them, divide each root into `num_shards`.
struct StateShard {
  int num_shards = 1;
  int index = 0;
  /// Of the replicas that have this shard, the one that hands it over.
  bool is_first_copy = true;
  bool operator==(const StateShard&) const = default;
};

/// The shard of a rank, of kParameters, kMaster, kMoments or kGradients; of gradients it is
/// the shard whose sum over all replicas is complete after the reduction.
[[nodiscard]] StateShard state_shard(const Layout& layout, int rank, MemoryKind kind);

}  // namespace trireme
