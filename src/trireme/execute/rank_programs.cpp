#include "trireme/execute/rank_programs.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "trireme/base/errors.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/program/build.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

void verify_kind(const std::vector<RankPrograms>& ranks, std::size_t kind) {
  std::vector<Program> programs;
  for (const RankPrograms& rank : ranks) programs.push_back(rank.programs.at(kind));
  require_valid(verify(programs));
}

}  // namespace

std::vector<const Program*> RankPrograms::pointers() const {
  std::vector<const Program*> all;
  for (const Program& program : programs) all.push_back(&program);
  return all;
}

std::int64_t RankPrograms::num_instructions() const {
  std::int64_t sum = 0;
  for (const Program& program : programs) sum += program.num_instructions();
  return sum;
}

std::vector<RankPrograms> make_ready(std::vector<std::vector<Program>> programs, int num_threads) {
  TRI_CHECK(!programs.empty());
  std::map<std::pair<int, int>, std::int64_t> workspace_bytes;  // by (pp, tp)
  std::vector<RankPrograms> ranks;
  for (std::vector<Program>& of_rank : programs) {
    // Ranks that differ only along dp and cp run the same kernels: one of them tells what scratch
    // they need.
    const BuildRequest& request = of_rank.front().request;
    const MeshCoord coord = request.layout.mesh().coord_of(request.rank);
    const auto [bytes, is_new] = workspace_bytes.try_emplace({coord.pp, coord.tp}, 0);
    for (const Program& program : of_rank) {
      if (is_new)
        bytes->second = std::max(bytes->second, cpu_workspace_bytes(program, num_threads));
    }
    RankPrograms& rank = ranks.emplace_back(RankPrograms{.programs = std::move(of_rank)});
    for (Program& program : rank.programs) set_workspace_bytes(program, bytes->second);
    rank.placement = place(rank.pointers());
    require_valid(verify_placement(rank.pointers(), rank.placement));
  }
  for (std::size_t kind = 0; kind < ranks.front().programs.size(); ++kind) {
    verify_kind(ranks, kind);
  }
  return ranks;
}

std::int64_t total_arena_bytes(const std::vector<RankPrograms>& ranks) {
  std::int64_t bytes = 0;
  for (const RankPrograms& rank : ranks) bytes += rank.placement.arena_bytes;
  return bytes;
}

}  // namespace trireme
