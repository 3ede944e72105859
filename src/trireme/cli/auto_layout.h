// trireme train --layout auto. Private to the layer.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "trireme/cli/session.h"
#include "trireme/train/config.h"

namespace trireme {

struct AutoLayoutArguments {
  std::string cluster;  ///< file of `trireme calibrate`; empty: the run's own, or measured
  bool keeps_micro_batch = false;  ///< that of the config, else it is planned
  bool is_dry_run = false;         ///< writes nothing
  const std::atomic<int>& stop_signal;
};

struct AutoLayout {
  TrainConfig config;                       ///< checked, with its layout and micro_batch
  std::string text;                         ///< whole lines: what was chosen, and why
  std::optional<double> step_seconds = {};  ///< predicted; nothing where no machine is known
};

/// The best layout of 1 to as many ranks as cores for `config`, or, where the run's folder has a
/// checkpoint, the one that the run had. A machine that has to be measured first is kept in the
/// run's folder as this-machine.toml. Nothing if it was stopped. Throws UsageError for a cluster
/// that is no calibrated machine and where no layout fits its memory.
[[nodiscard]] std::optional<AutoLayout> auto_layout(const TrainConfig& config,
                                                    const AutoLayoutArguments& arguments,
                                                    const Session& session);

/// Predicted beside measured, one line. `step_seconds` are those of the run's steps, not empty; the
/// first counts only where it is the only one.
[[nodiscard]] std::string predicted_and_measured(double predicted_seconds,
                                                 std::vector<double> step_seconds);

}  // namespace trireme
