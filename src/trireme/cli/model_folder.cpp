#include "trireme/cli/model_folder.h"

#include <algorithm>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/units.h"
#include "trireme/checkpoint/hf_config.h"
#include "trireme/checkpoint/store.h"
#include "trireme/data/corpus.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/train/checkpointing.h"
#include "trireme/train/model_state.h"

namespace trireme {
namespace {

/// The newest complete checkpoint of a run; newer ones that are damaged are noted.
ModelFolder newest_checkpoint(const std::filesystem::path& run) {
  const CheckpointStore::Search search = CheckpointStore(run, {}).newest_complete();
  if (search.newest) return {.path = search.newest->dir, .notes = search.warnings};
  std::string skipped;
  for (const std::string& warning : search.warnings) skipped += " (" + warning + ")";
  throw UsageError(fmt::format(
      "[checkpoint] {}: the run has no complete checkpoint{}; train it for longer, or name another "
      "folder",
      run.string(), skipped));
}

}  // namespace

ModelFolder find_model(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    throw UsageError(fmt::format(
        "[checkpoint] {}: no such folder; name a run's folder, one of its checkpoints, or a folder "
        "with config.json and model.safetensors",
        path.string()));
  }
  const bool is_run = !std::filesystem::exists(path / "config.json") &&
                      std::filesystem::is_directory(path / "checkpoints");
  ModelFolder folder = is_run ? newest_checkpoint(path) : ModelFolder{.path = path};
  if (!is_run) verify_if_checkpoint(path);
  folder.spec = model_spec_from_hf_config(folder.path);
  return folder;
}

Generator load_generator(const ModelFolder& folder, std::int64_t default_context,
                         const GeneratorRanks& ranks) {
  ModelSpec spec = folder.spec;
  if (spec.max_seq == 0) spec.max_seq = default_context;
  const int num_ranks = ranks.layout.mesh().size();
  Generator generator(spec, ranks.layout,
                      {.num_threads = std::max(1, ranks.num_threads / num_ranks),
                       .resets_affinity = ranks.resets_affinity});
  generator.on_ranks([&](const Program& program, RankExecutor& executor) {
    ModelState state(program, executor, 0);
    load_weights(folder.path, state);
  });
  return generator;
}

void require_byte_tokens(const ModelSpec& spec) {
  if (spec.vocab >= kBytesVocab) return;
  throw UsageError(fmt::format(
      "[tokenizer] vocabulary of {}: text is read as bytes, which needs {}; other tokenizers are "
      "not built yet: use a model with a vocabulary of at least {}",
      spec.vocab, kBytesVocab, kBytesVocab));
}

int default_threads() {
  return num_available_cores();
}

}  // namespace trireme
