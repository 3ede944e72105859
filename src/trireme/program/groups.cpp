#include "trireme/program/groups.h"

#include <algorithm>
#include <cstddef>

namespace trireme {
namespace {

std::vector<int> pair_of(std::vector<int> pipeline, std::size_t own, std::size_t other) {
  if (own == other) return {};
  return {pipeline[std::min(own, other)], pipeline[std::max(own, other)]};
}

}  // namespace

std::optional<Axis> axis_of(std::string_view group) {
  for (const Axis axis : {Axis::kPp, Axis::kDp, Axis::kCp, Axis::kTp}) {
    if (axis_name(axis) == group) return axis;
  }
  return std::nullopt;
}

Stream stream_of(std::string_view group) {
  const auto axis = axis_of(group);
  if (axis == Axis::kTp) return Stream::kTensor;
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
  const auto own = static_cast<std::size_t>(mesh.coord_of(request.rank).pp);
  const std::size_t last = pipeline.size() - 1;
  if (group == kTiedGroup && (own == 0 || own == last)) return pair_of(pipeline, own, last - own);
  if (group == kMirrorGroup) return pair_of(pipeline, own, last - own);
  return {};
}

}  // namespace trireme
