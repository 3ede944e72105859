// The ranks that hold the same parameters, and what ZeRO makes of them.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/program/program.h"

namespace trireme {

/// All ranks that hold the same parameters where cp > 1: along dp and cp, cp faster. Without cp
/// they are the axis dp.
inline constexpr std::string_view kDpCpGroup = "dp_cp";
/// Where they are cut by layout.dp_shard (hybrid sharding, as in Zhao et al. 2023,
/// arXiv:2304.11277, section 3.2.2): neighbours that have one shard each of what ZeRO shards, ...
inline constexpr std::string_view kShardGroup = "dp_shard";
/// ... and the ranks that have the same shard.
inline constexpr std::string_view kReplicateGroup = "dp_replicate";

/// One rank's view of those that hold the same parameters.
struct Replicas {
  int size = 1;                  ///< dp * cp
  int rank = 0;                  ///< this one's place among them
  std::string_view group;        ///< all of them
  int num_shards = 1;            ///< of what ZeRO shards; 1 without ZeRO
  int shard = 0;                 ///< this rank's
  std::string_view shard_group;  ///< the ranks of one copy; empty if num_shards is 1
  std::string_view copy_group;   ///< the ranks that have this shard; empty if no other has
  [[nodiscard]] bool is_sharded() const { return num_shards > 1; }
};
[[nodiscard]] Replicas replicas_of(const Layout& layout, int rank);
[[nodiscard]] inline Replicas replicas_of(const BuildRequest& request) {
  return replicas_of(request.layout, request.rank);
}

/// ZeRO-3: each replica has a shard of the parameters, gathered layer by layer.
[[nodiscard]] bool gathers_parameters(const BuildRequest& request);

/// World ranks of kDpCpGroup, kShardGroup or kReplicateGroup that have `request.rank`, ascending;
/// empty for other names.
[[nodiscard]] std::vector<int> replica_ranks(const BuildRequest& request, std::string_view group);

}  // namespace trireme
