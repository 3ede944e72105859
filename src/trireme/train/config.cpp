#include "trireme/train/config.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/base/units.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/program/pipeline.h"
#include "trireme/train/option.h"

namespace trireme {
namespace {

void check_required(const Option& option, const OptionValue& value) {
  if (option.is_required && value == option.default_value) {
    throw UsageError(
        fmt::format("[{0}] {1} is not set: must be {2}; set it in [{0}] or with "
                    "--{0}.{1} ({3})",
                    option.section, option.key, rule_text(option), option.doc));
  }
}

void check_each_option(const TrainConfig& config) {
  for (const Option& option : train_options()) {
    const OptionValue value = option.value_in(config);
    check_required(option, value);
    check_value(option, value, "");
  }
}

/// The run's folder must lie in run.dir.
void check_run_folder(const RunConfig& run) {
  const bool is_plain = !run.name.empty() && run.name != "." && run.name != ".." &&
                        run.name.find('/') == run.name.npos && run.name.find('\0') == run.name.npos;
  constexpr std::size_t kMaxNameBytes = 255;
  if (run.name.size() > kMaxNameBytes) {
    throw UsageError(fmt::format("[run] name of {} bytes: must have at most {}; shorten it",
                                 run.name.size(), kMaxNameBytes));
  }
  if (!is_plain) {
    throw UsageError(
        fmt::format("[run] name = {}: must be the name of a folder in run.dir, "
                    "without \"/\"; put leading folders into run.dir",
                    toml_text(run.name)));
  }
  if (run.dir.empty()) {
    throw UsageError("[run] dir = \"\": must be a folder; use \".\" for the current one");
  }
}

void check_vocabulary(const ModelSpec& spec) {
  constexpr std::int64_t kNumBytes = 256;
  if (spec.vocab < kNumBytes) {
    throw UsageError(
        fmt::format("[model] vocab = {} with [data] tokenizer = \"bytes\": must be >= "
                    "256, one entry per byte; use vocab = 256",
                    spec.vocab));
  }
}

void check_schedule(const TrainConfig& config) {
  const std::int64_t steps = config.run.steps;
  const LrConfig& lr = config.lr;
  if (lr.warmup_steps > steps) {
    throw UsageError(
        fmt::format("[lr] warmup_steps = {0} with [run] steps = {1}: must be <= "
                    "steps; use warmup_steps = {1} or more steps",
                    lr.warmup_steps, steps));
  }
  if (lr.min_lr > config.optimizer.lr) {
    throw UsageError(fmt::format(
        "[lr] min_lr = {0} with [optimizer] lr = {1}: must be <= lr; "
        "use for example min_lr = {2}",
        lr.min_lr, config.optimizer.lr, fmt::format("{:.3g}", config.optimizer.lr / 10.0)));
  }
  const std::int64_t longest = steps - std::max<std::int64_t>(lr.warmup_steps, 1);
  if (lr.shape == LrShape::kWsd && longest < 1) {
    throw UsageError(
        fmt::format("[lr] shape = \"wsd\" with warmup_steps = {} and [run] steps = {}: must leave "
                    "a step for the decay after the peak; use steps = {} or more",
                    lr.warmup_steps, steps, std::max<std::int64_t>(lr.warmup_steps, 1) + 1));
  }
  if (lr.shape == LrShape::kWsd && (lr.decay_steps < 1 || lr.decay_steps > longest)) {
    throw UsageError(fmt::format(
        "[lr] decay_steps = {} with shape = \"wsd\", warmup_steps = {} and [run] steps = {}: must "
        "be "
        ">= 1 and fit between the peak and the last step; use for example {}, or more steps",
        lr.decay_steps, lr.warmup_steps, steps, std::max<std::int64_t>(1, longest / 5)));
  }
}

void check_intervals(const TrainConfig& config) {
  for (const std::int64_t step : config.trace.steps) {
    if (step > config.run.steps) {
      throw UsageError(
          fmt::format("[trace] steps holds {} with [run] steps = {}: must be in "
                      "1..{}; correct or remove it",
                      step, config.run.steps, config.run.steps));
    }
  }
  const CheckpointConfig& saving = config.checkpoint;
  if (saving.every > 0 && saving.keep_every % saving.every != 0) {
    throw UsageError(fmt::format(
        "[checkpoint] keep_every = {} with every = {}: must be a multiple of "
        "it, or nothing would be kept; use for example {}",
        saving.keep_every, saving.every, (saving.keep_every / saving.every + 1) * saving.every));
  }
  if (config.run.eval_every > 0 && config.data.val_fraction == 0.0) {
    throw UsageError(
        fmt::format("[run] eval_every = {} with [data] val_fraction = 0: evaluation "
                    "needs held-out text; use for example val_fraction = 0.05",
                    config.run.eval_every));
  }
}

}  // namespace

namespace {

/// A link so slow that a message takes longer than a day is a mistake, not a model.
void check_ranks(const RanksConfig& ranks, int world) {
  if (world > kMaxThreadRanks) {
    throw UsageError(
        fmt::format("[layout] {} ranks as threads of one process: at most {}; use fewer", world,
                    kMaxThreadRanks));
  }
  constexpr double kLeastGbPerS = 1e-6;
  if (ranks.link_gb_per_s == 0.0 || ranks.link_gb_per_s >= kLeastGbPerS) return;
  throw UsageError(
      fmt::format("[layout] link_gb_per_s = {}: must be 0 (off) or at least {}; use {}",
                  ranks.link_gb_per_s, kLeastGbPerS, kLeastGbPerS));
}

void check_resume(const CheckpointConfig& checkpoint) {
  const std::string& resume = checkpoint.resume;
  std::error_code error;
  if (resume == "auto" || resume == "never" || std::filesystem::is_directory(resume, error)) return;
  throw UsageError(
      fmt::format("[checkpoint] resume = \"{}\": must be \"auto\", \"never\" or a checkpoint's "
                  "folder, and there "
                  "is no such folder; use \"auto\"",
                  resume));
}

}  // namespace

TrainConfig checked(TrainConfig config) {
  check_each_option(config);
  check_run_folder(config.run);
  config.model.spec = resolved(config.model.spec);
  check_layout(config.model.spec, config.layout, config.batch);
  // Refuses a schedule or stages that do not fit.
  static_cast<void>(Pipeline(config.model.spec, config.layout,
                             narrow<int>(config.batch.num_micro_batches(config.layout))));
  check_vocabulary(config.model.spec);
  check_schedule(config);
  check_intervals(config);
  check_ranks(config.ranks, config.layout.world());
  check_resume(config.checkpoint);
  return config;
}

LrSchedule lr_schedule(const TrainConfig& config) {
  return {.shape = config.lr.shape,
          .lr = config.optimizer.lr,
          .min_lr = config.lr.min_lr,
          .warmup_steps = config.lr.warmup_steps,
          .decay_steps = config.lr.decay_steps,
          .total_steps = config.run.steps};
}

std::string training_text(const TrainConfig& config) {
  std::string text;
  for (const Option& option : train_options()) {
    if (option.changes_training) {
      text += fmt::format("{} = {}\n", option.name(), toml_text(option.value_in(config)));
    }
  }
  return text;
}

std::string config_hash(const TrainConfig& config) {
  constexpr std::uint64_t kNoSeed = 0;
  return fmt::format("{:016x}", philox_key(kNoSeed, training_text(config)));
}

}  // namespace trireme
