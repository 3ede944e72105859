// Which model a folder holds. Private to the layer.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "trireme/execute/generator.h"
#include "trireme/layout/layout.h"
#include "trireme/model/spec.h"

namespace trireme {

/// A folder with config.json and model.safetensors (or its index).
struct ModelFolder {
  std::filesystem::path path;
  ModelSpec spec = {};
  std::vector<std::string> notes = {};  ///< newer checkpoints that were skipped, and why
};

/// `path` is a step folder, a folder from elsewhere with Hugging Face names, or a run folder, of
/// which the newest complete checkpoint is taken. Checks the checksums of a folder that has them.
/// Throws UsageError if it is none of these, ResourceError if it is damaged.
[[nodiscard]] ModelFolder find_model(const std::filesystem::path& path);

/// What runs a generator.
struct GeneratorRanks {
  Layout layout = {};
  int num_threads = 1;  ///< of all ranks together; each has at least one
  bool resets_affinity = false;
};

/// A generator that holds the weights of `folder`. A model that names no context gets
/// `default_context` tokens.
[[nodiscard]] Generator load_generator(const ModelFolder& folder, std::int64_t default_context,
                                       const GeneratorRanks& ranks);

/// Throws UsageError unless the model can read bytes as tokens.
void require_byte_tokens(const ModelSpec& spec);

/// Compute threads for a command, of all its ranks together.
[[nodiscard]] int default_threads();

}  // namespace trireme
