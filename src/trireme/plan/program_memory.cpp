#include "trireme/plan/program_memory.h"

#include "trireme/program/build.h"
#include "trireme/program/place.h"

namespace trireme {

std::vector<std::int64_t> stage_arena_bytes(BuildRequest request, std::int64_t workspace_bytes) {
  request.spec = resolved(request.spec);
  check_layout(request.spec, request.layout, request.batch);
  const Mesh mesh = request.layout.mesh();
  std::vector<std::int64_t> bytes;
  for (int stage = 0; stage < request.layout.pp; ++stage) {
    request.rank = mesh.rank_of({.pp = stage});
    Program program = build_train(request);
    set_workspace_bytes(program, workspace_bytes);
    bytes.push_back(place({&program}).arena_bytes);
  }
  return bytes;
}

}  // namespace trireme
