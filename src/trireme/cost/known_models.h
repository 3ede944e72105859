// Models by name: those of models/*.toml, and published ones that are only priced.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/cost/workload.h"

namespace trireme {

/// The shape of a model by its name, in any case and with or without blanks, dots and dashes
/// ("llama-3-8b", "LLAMA3 8B"), or by the path of a models/*.toml. "1B", "3B", "8B" and "80B" are
/// the Ultra-Scale Playbook's. Nothing for an unknown name. Throws as parse errors of the file do.
[[nodiscard]] std::optional<ModelShape> known_model(std::string_view name_or_path);

/// The spec of a name or path that Trireme can train; nothing for the others.
[[nodiscard]] std::optional<ModelSpec> known_spec(std::string_view name_or_path);

/// Names for a message, ", " between: of the models that Trireme can train.
[[nodiscard]] std::string trained_model_names();
/// Of all, those that are only priced apart.
[[nodiscard]] std::string known_model_names();

}  // namespace trireme
