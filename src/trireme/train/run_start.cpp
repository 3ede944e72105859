#include "trireme/train/run_start.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/program/text.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

/// A hash of everything that ranks compute apart and must agree on.
std::uint64_t fingerprint_of(const RunPlan& plan, const std::string& data_identity) {
  std::uint64_t hash = philox_key(0, data_identity);
  for (const RankPrograms& rank : plan.ranks) {
    for (const Program& program : rank.programs) hash = philox_key(hash, program_text(program));
    hash = philox_key(hash, std::to_string(rank.placement.arena_bytes));
  }
  return hash;
}

}  // namespace

std::optional<Checkpoint> find_resume(const TrainConfig& config, const CheckpointStore& store,
                                      TrainObserver& observer) {
  CheckpointStore::Search search = store.newest_complete();
  for (const std::string& warning : search.warnings) observer.on_note(warning);
  if (!search.newest && search.has_folders) {
    throw ResourceError(fmt::format(
        "[checkpoint] {}: it has checkpoints but none that can be used, and starting over would "
        "replace them: {}; choose another run.name, or move that folder away",
        store.root().string(), fmt::join(search.warnings, "; ")));
  }
  if (config.checkpoint.resume == "auto") return std::move(search.newest);
  std::optional<Checkpoint> start;
  if (config.checkpoint.resume != "never") start = open_checkpoint(config.checkpoint.resume);
  const std::int64_t start_step = start ? start->state.step : 0;
  if (search.newest && search.newest->state.step > start_step) {
    throw UsageError(fmt::format(
        "[checkpoint] resume = {} starts after step {}, but {} is there: one folder holds one "
        "line of steps; choose another run.name, or move that checkpoint away",
        config.checkpoint.resume, start_step, search.newest->dir.string()));
  }
  return start;
}

std::optional<Checkpoint> share_checkpoint(std::optional<Checkpoint> found, Communicator& all) {
  std::string path = found ? found->dir.string() : std::string();
  std::int64_t num_bytes = std::ssize(path);
  all.broadcast(std::as_writable_bytes(std::span(&num_bytes, 1)), 0);
  path.resize(static_cast<std::size_t>(num_bytes));
  all.broadcast(std::as_writable_bytes(std::span(path)), 0);
  if (all.rank() == 0 || path.empty()) return found;
  return reopen_checkpoint(path);
}

void check_same_plan(const RunPlan& plan, const std::string& data_identity, Communicator& all) {
  const std::uint64_t own = fingerprint_of(plan, data_identity);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(all.size()));
  all.all_gather(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(hashes)));
  const auto differs = std::find_if(hashes.begin(), hashes.end(),
                                    [&](std::uint64_t hash) { return hash != hashes.front(); });
  if (differs == hashes.end()) return;
  throw UsageError(fmt::format(
      "[launch] rank {} has another program or other data than rank 0: all processes must be given "
      "the same configuration and files, and have as many threads; use one version of Trireme on "
      "all machines, and set layout.threads_per_rank (rank 0 has {})",
      differs - hashes.begin(), plan.threads_per_rank));
}

}  // namespace trireme
