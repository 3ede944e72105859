// The frameworks, one file each. Private to the folder.
#pragma once

#include "trireme/plan/launch/launch.h"

namespace trireme::launch {

/// Each refuses by UsageError what its framework cannot run. `check_request` has passed.
[[nodiscard]] LaunchFiles trireme_files(const LaunchRequest& request);
[[nodiscard]] LaunchFiles torchtitan_files(const LaunchRequest& request);
[[nodiscard]] LaunchFiles megatron_files(const LaunchRequest& request);
[[nodiscard]] LaunchFiles nanotron_files(const LaunchRequest& request);
[[nodiscard]] LaunchFiles picotron_files(const LaunchRequest& request);
[[nodiscard]] LaunchFiles deepspeed_files(const LaunchRequest& request);

}  // namespace trireme::launch
