// Test only: small checkpoints of one run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "trireme/base/test_files.h"
#include "trireme/checkpoint/store.h"

namespace trireme {

inline CheckpointState state_at(std::int64_t step) {
  return {.step = step,
          .tokens = step * 100,
          .data_position = {{"text", step * 4}},
          .rng_seed = 0xFFFF'FFFF'FFFF'FFFF,
          .config_hash = "00ff",
          .trainer_json = R"({"threads":2})"};
}

/// model.safetensors with `bytes` bytes in one tensor, each the step's low byte.
inline void fill_model(CheckpointDraft& draft, std::int64_t step, std::int64_t bytes) {
  const std::string content(static_cast<std::size_t>(bytes), static_cast<char>(step));
  draft.write_tensors(
      "model.safetensors", {{.name = "w", .dtype = DType::kU8, .shape = {bytes}}},
      [&](SafetensorsWriter& writer) { writer.write("w", std::as_bytes(std::span(content))); });
}

inline CheckpointStore::SaveReport save_step(CheckpointStore& store, std::int64_t step,
                                             std::int64_t bytes = 16) {
  return store.save(state_at(step), bytes, [&](CheckpointDraft& draft) {
    fill_model(draft, step, bytes);
    draft.write_text("config.toml", "[run]\n");
  });
}

/// Names in a folder, sorted, separated by spaces.
inline std::string listing(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace trireme
