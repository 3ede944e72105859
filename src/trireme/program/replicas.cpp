#include "trireme/program/replicas.h"

namespace trireme {

Replicas replicas_of(const Layout& layout, int rank) {
  const MeshCoord coord = layout.mesh().coord_of(rank);
  Replicas replicas{.size = layout.dp * layout.cp,
                    .rank = coord.dp * layout.cp + coord.cp,
                    .group = layout.cp == 1 ? axis_name(Axis::kDp) : kDpCpGroup,
                    .num_shards = layout.num_shards(),
                    .shard_group = {},
                    .copy_group = {}};
  const bool is_split = replicas.is_sharded() && replicas.num_shards < replicas.size;
  replicas.shard = replicas.rank % replicas.num_shards;
  if (replicas.is_sharded()) replicas.shard_group = is_split ? kShardGroup : replicas.group;
  if (replicas.num_shards < replicas.size)
    replicas.copy_group = is_split ? kReplicateGroup : replicas.group;
  return replicas;
}

bool gathers_parameters(const BuildRequest& request) {
  return request.layout.zero == 3 && replicas_of(request).is_sharded();
}

std::vector<int> replica_ranks(const BuildRequest& request, std::string_view group) {
  const Layout& layout = request.layout;
  const Replicas replicas = replicas_of(request);
  int first = 0, step = 1, count = replicas.size;
  if (group == kShardGroup) {
    first = replicas.rank - replicas.shard;
    count = replicas.num_shards;
  } else if (group == kReplicateGroup) {
    first = replicas.shard;
    step = replicas.num_shards;
    count = replicas.size / replicas.num_shards;
  } else if (group != kDpCpGroup) {
    return {};
  }
  const Mesh mesh = layout.mesh();
  MeshCoord coord = mesh.coord_of(request.rank);
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) {
    coord.dp = (first + i * step) / layout.cp;
    coord.cp = (first + i * step) % layout.cp;
    ranks.push_back(mesh.rank_of(coord));
  }
  return ranks;
}

}  // namespace trireme
