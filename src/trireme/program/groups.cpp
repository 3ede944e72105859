#include "trireme/program/groups.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "trireme/base/units.h"
#include "trireme/program/pipeline.h"
#include "trireme/program/replicas.h"

namespace trireme {
namespace {

constexpr std::array<std::string_view, 9> kGroupNames = {
    "pp", "dp", "cp", "tp", kDpCpGroup, kShardGroup, kReplicateGroup, kTiedGroup, kMirrorGroup};

std::vector<int> pair_of(const std::vector<int>& pipeline, int a, int b) {
  if (a == b) return {};
  return {pipeline[static_cast<std::size_t>(std::min(a, b))],
          pipeline[static_cast<std::size_t>(std::max(a, b))]};
}

}  // namespace

Groups group_bit(std::string_view group) {
  const auto found = std::find(kGroupNames.begin(), kGroupNames.end(), group);
  return found == kGroupNames.end() ? 0 : 1U << static_cast<unsigned>(found - kGroupNames.begin());
}

std::string groups_text(Groups groups) {
  std::string text;
  for (const std::string_view group : kGroupNames) {
    if ((groups & group_bit(group)) != 0)
      text += fmt::format("{}{}", text.empty() ? "" : " and ", group);
  }
  return text.empty() ? "no group" : text;
}

std::optional<Axis> axis_of(std::string_view group) {
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    if (axis_name(axis) == group) return axis;
  }
  return std::nullopt;
}

Stream stream_of(std::string_view group) {
  const auto axis = axis_of(group);
  if (axis == Axis::kTp) return Stream::kTensor;
  if (axis == Axis::kCp) return Stream::kContext;
  return axis == Axis::kPp ? Stream::kPipe : Stream::kComm;
}

std::set<std::string> groups_of(const std::vector<Program>& programs) {
  std::set<std::string> groups;
  for (const Program& program : programs) {
    for (const Template& item : program.templates) {
      for (const Instruction& instruction : item.instructions) {
        if (instruction.comm) groups.insert(instruction.comm->group);
      }
    }
  }
  return groups;
}

std::vector<int> group_ranks(const BuildRequest& request, std::string_view group) {
  const Mesh mesh = request.layout.mesh();
  if (const auto axis = axis_of(group)) return mesh.group_of(request.rank, *axis);
  const std::vector<int> pipeline = mesh.group_of(request.rank, Axis::kPp);
  const auto own = mesh.coord_of(request.rank).pp;
  if (group == kMirrorGroup) return pair_of(pipeline, own, narrow<int>(pipeline.size()) - 1 - own);
  if (group != kTiedGroup) return replica_ranks(request, group);
  const Pipeline stages = Pipeline::forward_only(request.spec, request.layout, 1);
  const int first = stages.rank_of(0, 0), last = stages.rank_of(stages.num_stages() - 1, 0);
  return own == first || own == last ? pair_of(pipeline, first, last) : std::vector<int>();
}

}  // namespace trireme
