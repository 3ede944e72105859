// Rules that several frameworks share. Private to the folder.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trireme/base/errors.h"
#include "trireme/plan/launch/launch.h"

namespace trireme::launch {

/// Throws UsageError "[framework] values: rule; remedy".
[[noreturn]] void refuse(std::string_view framework, std::string_view values, std::string_view rule,
                         std::string_view remedy);

/// What no framework can do: degrees, ZeRO stage, batch and setting out of range, experts, or other
/// than nodes * devices_per_node ranks.
void check_request(std::string_view framework, const LaunchRequest& request);

struct Extent {
  std::string_view name;  ///< "heads"
  std::int64_t value = 0;
};

/// `degree` must divide each of `extents`; `rule` is the middle of the message.
void check_divides(std::string_view framework, const Extent& degree,
                   std::initializer_list<Extent> extents, std::string_view rule);

/// Only Llama's architecture: no GPT-2, no head_dim other than hidden / heads, no qk_norm, and
/// qkv_bias only if the framework has it.
void check_llama(std::string_view framework, const ModelSpec& spec, bool has_qkv_bias);

/// Only one stage of each rank, its layers spread by the framework, in the order 1f1b or gpipe.
void check_plain_pipeline(std::string_view framework, const Layout& layout);

/// Chunks of a rank under layout.schedule, 1 without a pipeline.
[[nodiscard]] int num_chunks(const Layout& layout);

/// layout.dp_shard, or all.
[[nodiscard]] int shard_degree(const Layout& layout);

}  // namespace trireme::launch
