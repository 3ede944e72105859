// Writing values, names and command lines. Private to the folder.
#pragma once

#include <string>
#include <string_view>

#include "trireme/plan/launch/launch.h"

namespace trireme::launch {

/// "Llama-3.1 8B" as part of a file's name: "Llama-3.1_8B".
[[nodiscard]] std::string file_stem(std::string_view name);
/// And as a Python name: "llama_3_1_8b".
[[nodiscard]] std::string python_name(std::string_view name);
/// A number with a decimal point, as TOML, JSON, Python and YAML 1.1 all read it ("3.0e-05": YAML's
/// loaders take "3e-05" for text).
[[nodiscard]] std::string number(double value);
/// In double quotes, escaped as TOML, JSON, Python and YAML agree on.
[[nodiscard]] std::string quoted(std::string_view text);
/// For a POSIX shell; in single quotes only where it must be.
[[nodiscard]] std::string shell_word(std::string_view text);
/// Lines of comment: framework, commit, layout, and the notes.
[[nodiscard]] std::string comment(std::string_view framework, std::string_view commit,
                                  const LaunchRequest& request, const LaunchFiles& files);

/// `torchrun ... program`, on one node; under Slurm's srun, in a batch script, on several.
/// `environment` precedes torchrun: "NAME=value ", or nothing.
[[nodiscard]] std::string torchrun_command(const LaunchSetting& setting,
                                           std::string_view environment, std::string_view program);

}  // namespace trireme::launch
