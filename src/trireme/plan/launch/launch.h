// A layout as a configuration of a training framework, and the command that starts it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cost/workload.h"
#include "trireme/layout/layout.h"
#include "trireme/model/spec.h"

namespace trireme {

enum class Framework : std::uint8_t {
  kTrireme,
  kTorchtitan,
  kMegatron,
  kNanotron,
  kPicotron,
  kDeepspeed
};

[[nodiscard]] std::string_view framework_name(Framework framework);
/// By its name, in lower case: "torchtitan"; nothing for an unknown one.
[[nodiscard]] std::optional<Framework> find_framework(std::string_view name);
/// Names for a message, ", " between.
[[nodiscard]] std::string framework_names();

/// What a layout does not say: the machines, the data and the optimizer.
struct LaunchSetting {
  int nodes = 1;
  int devices_per_node = 8;
  /// What the framework reads; empty = its mock data, or a placeholder in capitals where it has
  /// none (docs/reference/launch.md).
  std::string data = {};
  /// Name on the Hugging Face hub, or a folder; empty = none, or a placeholder.
  std::string tokenizer = {};
  std::int64_t seed = 42;
  std::int64_t steps = 1000;
  std::int64_t warmup_steps = 0;  ///< then a cosine down to min_lr at the last step
  double lr = 3e-4;               ///< peak
  double min_lr = 3e-5;
  double weight_decay = 0.1;
  double clip = 1.0;  ///< greatest global gradient norm; 0 = off

  bool operator==(const LaunchSetting&) const = default;
};

struct LaunchRequest {
  std::string model_name;  ///< begins the names of files and of the run
  ModelSpec spec;
  Layout layout = {};
  Batch batch = {};
  ComputePrecision precision = ComputePrecision::kBf16;
  LaunchSetting setting = {};
};

struct LaunchFiles {
  std::string config_name;  ///< of the file that the command names, without a folder
  std::string config;
  std::string command;  ///< for a POSIX shell, lines ended by "\n"
  /// What the framework does otherwise than the layout says without holding or computing
  /// anything else, and what is left to do by hand; one sentence each.
  std::vector<std::string> notes = {};
};

/// For the commit of the framework that docs/reference/launch.md names. Layers over the stages are
/// `layout.stages`; where it is empty, the framework's own. Throws UsageError naming framework,
/// values, rule and remedy if the framework cannot run the layout, the model or the precision, or
/// if the devices are not as many as the layout has ranks.
[[nodiscard]] LaunchFiles launch_files(Framework framework, const LaunchRequest& request);

}  // namespace trireme
