// config.json of Hugging Face models: what tells a checkpoint's reader which model it holds.
#pragma once

#include <filesystem>
#include <string>

#include "trireme/model/spec.h"

namespace trireme {

/// config.json that transformers loads: LlamaForCausalLM, Qwen2ForCausalLM (qkv_bias),
/// Qwen3ForCausalLM (qk_norm) or GPT2LMHeadModel.
[[nodiscard]] std::string hf_config_json(const ModelSpec& spec);

/// The resolved model of folder/config.json. Throws UsageError if there is no such file,
/// ResourceError naming the field if it is no such JSON, holds another architecture, or asks for
/// what is not built (rope_scaling, other activations, sliding windows, ...): nothing is ignored
/// silently.
[[nodiscard]] ModelSpec model_spec_from_hf_config(const std::filesystem::path& folder);

}  // namespace trireme
