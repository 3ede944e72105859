#include "trireme/plan/launch/checks.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "trireme/base/nearest.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme::launch {
namespace {

void check_setting(std::string_view framework, const LaunchRequest& request) {
  const LaunchSetting& setting = request.setting;
  const auto check = [&](bool is_valid, std::string_view name, auto value, std::string_view rule,
                         std::string_view remedy) {
    if (!is_valid) refuse(framework, fmt::format("{} = {}", name, value), rule, remedy);
  };
  check(setting.nodes >= 1, "nodes", setting.nodes, "must be at least 1", "use nodes = 1");
  check(setting.devices_per_node >= 1, "devices_per_node", setting.devices_per_node,
        "must be at least 1", "use devices_per_node = 8");
  check(setting.steps >= 1, "steps", setting.steps, "must be at least 1", "use steps = 1000");
  check(0 <= setting.warmup_steps && setting.warmup_steps < setting.steps, "warmup_steps",
        setting.warmup_steps, fmt::format("must be from 0 to steps - 1 = {}", setting.steps - 1),
        "use warmup_steps = 0");
  check(std::isfinite(setting.lr) && setting.lr > 0, "lr", setting.lr, "must be above 0",
        "use lr = 3e-4");
  check(0 <= setting.min_lr && setting.min_lr <= setting.lr, "min_lr", setting.min_lr,
        fmt::format("must be from 0 to lr = {}", setting.lr), "use min_lr = 0");
  check(std::isfinite(setting.weight_decay) && setting.weight_decay >= 0, "weight_decay",
        setting.weight_decay, "must be at least 0", "use weight_decay = 0.1");
  check(std::isfinite(setting.clip) && setting.clip >= 0, "clip", setting.clip,
        "must be at least 0", "use clip = 1, or 0 for none");
  check(!request.model_name.empty(), "model", "\"\"", "must have a name", "name it");
}

void check_batch(std::string_view framework, const LaunchRequest& request) {
  const Batch& batch = request.batch;
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;  // as layout/layout.cpp
  const auto is_valid = [](std::int64_t value) { return 1 <= value && value <= kMost; };
  if (!is_valid(batch.seq) || !is_valid(batch.micro_batch) || !is_valid(batch.global_batch)) {
    refuse(framework,
           fmt::format("seq = {}, micro_batch = {}, global_batch = {}", batch.seq,
                       batch.micro_batch, batch.global_batch),
           fmt::format("must be from 1 to {}", kMost), "correct them");
  }
  const std::int64_t sequences = batch.micro_batch * request.layout.dp;
  if (batch.global_batch % sequences != 0) {
    refuse(framework,
           fmt::format("global_batch = {} with micro_batch = {} and dp = {}", batch.global_batch,
                       batch.micro_batch, request.layout.dp),
           fmt::format("must be a multiple of micro_batch * dp = {}", sequences),
           fmt::format("use global_batch = {}", nearest_multiples(batch.global_batch, sequences)));
  }
}

}  // namespace

void refuse(std::string_view framework, std::string_view values, std::string_view rule,
            std::string_view remedy) {
  throw UsageError(fmt::format("[{}] {}: {}; {}", framework, values, rule, remedy));
}

void check_request(std::string_view framework, const LaunchRequest& request) {
  const Layout& layout = request.layout;
  static_cast<void>(layout.mesh());  // refuses pp, dp, cp, tp < 1
  if (layout.zero < 0 || layout.zero > 3) {
    refuse(framework, fmt::format("zero = {}", layout.zero), "must be a stage from 0 to 3",
           "use zero = 1");
  }
  if (layout.ep != 1) {
    refuse(framework, fmt::format("ep = {}", layout.ep), "a dense model has no experts",
           "use ep = 1");
  }
  if (layout.dp_shard != 0 &&
      (layout.zero == 0 || layout.dp_shard < 0 || layout.dp % layout.dp_shard != 0)) {
    refuse(framework,
           fmt::format("dp_shard = {} with dp = {} and zero = {}", layout.dp_shard, layout.dp,
                       layout.zero),
           "must be a divisor of dp, and 0 without ZeRO", "use dp_shard = 0, all of dp");
  }
  if (layout.sp && layout.tp == 1) {
    refuse(framework, "sp = 1 with tp = 1", "no tensor-parallel ranks to cut a sequence over",
           "use sp = 0");
  }
  if (!(layout.bucket_mib > 0 && std::isfinite(layout.bucket_mib))) {
    refuse(framework, fmt::format("bucket_mib = {}", layout.bucket_mib), "must be above 0",
           "use bucket_mib = 25");
  }
  check_batch(framework, request);
  check_setting(framework, request);
  const LaunchSetting& setting = request.setting;
  if (std::int64_t{setting.nodes} * setting.devices_per_node != layout.world()) {
    refuse(framework,
           fmt::format("nodes = {} with {} devices each", setting.nodes, setting.devices_per_node),
           fmt::format("must be as many devices as the layout has ranks, {}", layout.world()),
           "use as many nodes and devices, or another layout");
  }
}

void check_divides(std::string_view framework, const Extent& degree,
                   std::initializer_list<Extent> extents, std::string_view rule) {
  std::int64_t common = 0;
  for (const Extent& extent : extents) common = std::gcd(common, extent.value);
  for (const Extent& extent : extents) {
    if (extent.value % degree.value == 0) continue;
    refuse(
        framework,
        fmt::format("{} = {} with {} = {}", degree.name, degree.value, extent.name, extent.value),
        rule, fmt::format("use {} = {}", degree.name, nearest_divisors(common, degree.value)));
  }
}

void check_llama(std::string_view framework, const ModelSpec& spec, bool has_qkv_bias) {
  const auto refuse_model = [&](std::string_view values) {
    refuse(framework, values, "its models do not have this",
           "use another framework: trireme or megatron");
  };
  if (!spec.is_llama()) refuse_model("family = gpt2");
  if (spec.head_dim * spec.heads != spec.hidden) {
    refuse_model(fmt::format("head_dim = {} with hidden = {} and heads = {}", spec.head_dim,
                             spec.hidden, spec.heads));
  }
  if (!has_qkv_bias && spec.qkv_bias) refuse_model("qkv_bias = true");
  if (spec.qk_norm) refuse_model("qk_norm = true");
}

void check_plain_pipeline(std::string_view framework, const Layout& layout) {
  if (layout.pp == 1) return;
  if (layout.schedule != "1f1b" && layout.schedule != "gpipe") {
    refuse(framework, fmt::format("schedule = \"{}\"", layout.schedule),
           "its pipelines know 1f1b and gpipe only", "use schedule = 1f1b");
  }
  if (num_chunks(layout) != 1) {
    refuse(framework, fmt::format("chunks = {}", layout.chunks), "a rank has one stage",
           "use chunks = 1");
  }
  if (!layout.stages.empty()) {
    refuse(framework, fmt::format("stages = {}", fmt::join(layout.stages, ", ")),
           "its configuration cannot say how many layers a stage has",
           "leave stages out, for its own split");
  }
}

int num_chunks(const Layout& layout) {
  if (layout.pp == 1) return 1;
  if (layout.chunks > 0) return layout.chunks;
  const ScheduleKind* const kind = find_schedule_kind(layout.schedule);
  constexpr int kChunksWhereAny = 2;  // as program/pipeline.h
  return kind == nullptr ? 1 : kind->chunks == 0 ? kChunksWhereAny : kind->chunks;
}

int shard_degree(const Layout& layout) {
  if (layout.zero == 0) return 1;
  return layout.dp_shard == 0 ? layout.dp : layout.dp_shard;
}

}  // namespace trireme::launch
