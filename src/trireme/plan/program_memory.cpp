#include "trireme/plan/program_memory.h"

#include <utility>

#include "trireme/program/build.h"

namespace trireme {

namespace {

std::vector<Placement> stage_placements(BuildRequest request, std::int64_t workspace_bytes) {
  request.spec = resolved(request.spec);
  check_layout(request.spec, request.layout, request.batch);
  const Mesh mesh = request.layout.mesh();
  std::vector<Placement> placements;
  for (int stage = 0; stage < request.layout.pp; ++stage) {
    request.rank = mesh.rank_of({.pp = stage});
    Program program = build_train(request);
    set_workspace_bytes(program, workspace_bytes);
    placements.push_back(place({&program}));
  }
  return placements;
}

}  // namespace

std::vector<KindBytes> stage_kind_bytes(BuildRequest request) {
  std::vector<KindBytes> bytes;
  for (const Placement& placement : stage_placements(std::move(request), 0)) {
    bytes.push_back(placement.kind_bytes);
  }
  return bytes;
}

std::vector<std::int64_t> stage_arena_bytes(BuildRequest request, std::int64_t workspace_bytes) {
  std::vector<std::int64_t> bytes;
  for (const Placement& placement : stage_placements(std::move(request), workspace_bytes)) {
    bytes.push_back(placement.arena_bytes);
  }
  return bytes;
}

}  // namespace trireme
