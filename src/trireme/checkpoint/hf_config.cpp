#include "trireme/checkpoint/hf_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/checkpoint/file.h"
#include "trireme/checkpoint/json_text.h"

namespace trireme {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 20;

enum class Architecture : std::uint8_t { kLlama, kQwen2, kQwen3, kGpt2 };

struct ArchitectureName {
  Architecture architecture;
  std::string_view class_name;
  std::string_view model_type;
};
constexpr std::array<ArchitectureName, 4> kArchitectures = {{
    {Architecture::kLlama, "LlamaForCausalLM", "llama"},
    {Architecture::kQwen2, "Qwen2ForCausalLM", "qwen2"},
    {Architecture::kQwen3, "Qwen3ForCausalLM", "qwen3"},
    {Architecture::kGpt2, "GPT2LMHeadModel", "gpt2"},
}};

const ArchitectureName& name_of(Architecture architecture) {
  return kArchitectures.at(static_cast<std::size_t>(architecture));
}

Architecture architecture_of(const ModelSpec& spec) {
  if (!spec.is_llama()) return Architecture::kGpt2;
  if (spec.qk_norm && spec.qkv_bias) {
    throw UsageError(
        "[model] qkv_bias = true with qk_norm = true: no Hugging Face architecture has just these "
        "two, so a checkpoint could not say what it holds; switch one of them off");
  }
  if (spec.qk_norm) return Architecture::kQwen3;
  return spec.qkv_bias ? Architecture::kQwen2 : Architecture::kLlama;
}

/// Keys that change nothing that Trireme computes, in any architecture.
constexpr std::array<std::string_view, 16> kHarmless = {
    "_name_or_path",
    "architectures",
    "model_type",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "use_cache",
    "initializer_range",
    "pretraining_tp",
    "n_ctx",
    "task_specific_params",
    "max_window_layers",
    "reorder_and_upcast_attn",
};

/// A key whose other values would mean a model that is not built.
struct FixedKey {
  std::string_view key;
  Json value;
};

/// config.json as values, each key noted when it is read.
class ConfigReader {
 public:
  ConfigReader(Json json, std::string where) : json_(std::move(json)), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const { return where_; }

  std::int64_t count(const std::string& key) {
    seen_.push_back(key);
    return required_count(json_, key, where_);
  }
  /// Null counts as absent.
  std::int64_t count_or(const std::string& key, std::int64_t absent) {
    return has(key) ? count(key) : absent;
  }
  double real(const std::string& key) {
    seen_.push_back(key);
    if (!has(key)) refuse(key, "is missing", "it is required; add it");
    if (!json_[key].is_number()) refuse(key, "is no number", "it must be one; correct it");
    return json_[key].get<double>();
  }
  double real_or(const std::string& key, double absent) { return has(key) ? real(key) : absent; }
  bool flag_or(const std::string& key, bool absent) {
    seen_.push_back(key);
    if (!has(key)) return absent;
    if (!json_[key].is_boolean()) refuse(key, "is neither true nor false", "correct it");
    return json_[key].get<bool>();
  }
  /// The value under `key`, or nothing if it is absent or null.
  std::optional<Json> any(const std::string& key) {
    seen_.push_back(key);
    if (!has(key)) return std::nullopt;
    return json_[key];
  }
  void require_fixed(const std::vector<FixedKey>& keys) {
    for (const FixedKey& fixed : keys) {
      const std::optional<Json> value = any(std::string(fixed.key));
      if (value && *value != fixed.value) {
        refuse(fixed.key, fmt::format("= {}", shown_json(*value)),
               fmt::format("only {} is built; use another model", fixed.value.dump()));
      }
    }
  }
  /// Refuses a key that nobody asked for: it may change what the model computes.
  void refuse_unread() const {
    for (const auto& [key, value] : json_.items()) {
      if (value.is_null() || contains(kHarmless, key) || contains(seen_, key)) continue;
      refuse(key, fmt::format("= {}", shown_json(value)),
             "this key is not known here; remove it if it does not change the model");
    }
  }
  [[noreturn]] void refuse(std::string_view key, std::string_view what,
                           std::string_view rule_and_remedy) const {
    throw ResourceError(
        fmt::format("[checkpoint] {}: {} {}: {}", where_, shown(key), what, rule_and_remedy));
  }
  static std::string shown_json(const Json& value) {
    return value.is_string() ? shown(value.get<std::string>())
                             : value.dump(-1, ' ', true, Json::error_handler_t::replace);
  }

 private:
  [[nodiscard]] bool has(const std::string& key) const {
    return json_.contains(key) && !json_[key].is_null();
  }
  template <typename Keys>
  static bool contains(const Keys& keys, const std::string& key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  }

  Json json_;
  std::string where_;
  std::vector<std::string> seen_;
};

Architecture read_architecture(ConfigReader& reader) {
  const std::optional<Json> classes = reader.any("architectures");
  const std::optional<Json> type = reader.any("model_type");
  for (const ArchitectureName& name : kArchitectures) {
    const bool is_class = classes && *classes == Json::array({name.class_name});
    if (is_class || (!classes && type && *type == name.model_type)) return name.architecture;
  }
  const std::string value = classes ? ConfigReader::shown_json(*classes)
                            : type  ? ConfigReader::shown_json(*type)
                                    : "missing";
  reader.refuse(classes ? "architectures" : "model_type", fmt::format("= {}", value),
                "built are LlamaForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM and "
                "GPT2LMHeadModel; use one of these");
}

/// The base of the rotation, from "rope_theta" or (transformers 5) "rope_parameters".
double read_rope_base(ConfigReader& reader) {
  double base = reader.real_or("rope_theta", 10000.0);
  for (const char* const key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<Json> block = reader.any(key);
    if (!block) continue;
    if (!block->is_object()) reader.refuse(key, "is no object", "correct it");
    for (const auto& [name, value] : block->items()) {
      if (name == "rope_theta" && value.is_number()) {
        base = value.get<double>();
      } else if (!((name == "rope_type" || name == "type") && value == "default")) {
        reader.refuse(key, fmt::format("has {} = {}", shown(name), ConfigReader::shown_json(value)),
                      "only the unscaled rotation, rope_type \"default\", is built; use another "
                      "model");
      }
    }
  }
  return base;
}

ModelSpec read_llama(ConfigReader& reader, Architecture architecture) {
  const bool is_llama = architecture == Architecture::kLlama;
  ModelSpec spec{.family = Family::kLlama,
                 .layers = reader.count("num_hidden_layers"),
                 .hidden = reader.count("hidden_size"),
                 .heads = reader.count("num_attention_heads"),
                 .ffn = reader.count("intermediate_size"),
                 .vocab = reader.count("vocab_size"),
                 .max_seq = reader.count_or("max_position_embeddings", 0),
                 .rope_base = read_rope_base(reader),
                 .norm_eps = reader.real("rms_norm_eps"),
                 .tied = reader.flag_or("tie_word_embeddings", false),
                 .qkv_bias = architecture == Architecture::kQwen2,
                 .qk_norm = architecture == Architecture::kQwen3};
  // Where a key is left out, transformers has a default of its own for Qwen (32 key/value heads, of
  // 128 channels in Qwen3), which no small model means.
  spec.kv_heads =
      is_llama ? reader.count_or("num_key_value_heads", 0) : reader.count("num_key_value_heads");
  spec.head_dim = architecture == Architecture::kQwen3 ? reader.count("head_dim")
                                                       : reader.count_or("head_dim", 0);
  reader.require_fixed({{"hidden_act", "silu"},
                        {"attention_bias", architecture == Architecture::kQwen2},
                        {"mlp_bias", false},
                        {"attention_dropout", 0.0},
                        {"use_sliding_window", false}});
  // Qwen2 and Qwen3 name a window that use_sliding_window switches off.
  if (is_llama) reader.require_fixed({{"sliding_window", nullptr}});
  static_cast<void>(reader.any("sliding_window"));
  if (const auto types = reader.any("layer_types")) {
    for (const Json& type : *types) {
      if (type != "full_attention") {
        reader.refuse("layer_types", fmt::format("has {}", ConfigReader::shown_json(type)),
                      "only \"full_attention\" is built; use another model");
      }
    }
  }
  return spec;
}

ModelSpec read_gpt2(ConfigReader& reader) {
  constexpr double kDefaultDropout = 0.1;
  ModelSpec spec{.family = Family::kGpt2,
                 .layers = reader.count("n_layer"),
                 .hidden = reader.count("n_embd"),
                 .heads = reader.count("n_head"),
                 .ffn = reader.count_or("n_inner", 0),
                 .vocab = reader.count("vocab_size"),
                 .max_seq = reader.count("n_positions"),
                 .norm_eps = reader.real_or("layer_norm_epsilon", 1e-5),
                 .tied = true,
                 .dropout = reader.real_or("resid_pdrop", kDefaultDropout)};
  for (const char* const key : {"embd_pdrop", "attn_pdrop"}) {
    const double other = reader.real_or(key, kDefaultDropout);
    if (other != spec.dropout) {
      reader.refuse(key, fmt::format("= {} with resid_pdrop = {}", other, spec.dropout),
                    "the three dropouts must be equal; make them so");
    }
  }
  reader.require_fixed({{"activation_function", "gelu_new"},
                        {"tie_word_embeddings", true},
                        {"scale_attn_weights", true},
                        {"scale_attn_by_inverse_layer_idx", false},
                        {"add_cross_attention", false}});
  for (const char* const key : {"summary_activation", "summary_first_dropout",
                                "summary_proj_to_labels", "summary_type", "summary_use_proj"}) {
    static_cast<void>(reader.any(key));  // of another head
  }
  return spec;
}

OrderedJson llama_json(const ModelSpec& spec, Architecture architecture) {
  OrderedJson json = {{"hidden_act", "silu"},
                      {"hidden_size", spec.hidden},
                      {"intermediate_size", spec.ffn},
                      {"num_hidden_layers", spec.layers},
                      {"num_attention_heads", spec.heads},
                      {"num_key_value_heads", spec.kv_heads},
                      {"head_dim", spec.head_dim},
                      {"vocab_size", spec.vocab},
                      {"rms_norm_eps", spec.norm_eps},
                      {"rope_theta", spec.rope_base},
                      {"rope_scaling", nullptr},
                      {"tie_word_embeddings", spec.tied}};
  if (spec.max_seq > 0) json["max_position_embeddings"] = spec.max_seq;
  if (architecture == Architecture::kQwen2 || architecture == Architecture::kQwen3) {
    json["use_sliding_window"] = false;
  }
  if (architecture != Architecture::kQwen2) json["attention_bias"] = false;
  if (architecture == Architecture::kLlama) json["mlp_bias"] = false;
  return json;
}

OrderedJson gpt2_json(const ModelSpec& spec) {
  return {{"activation_function", "gelu_new"},
          {"n_embd", spec.hidden},
          {"n_inner", spec.ffn},
          {"n_layer", spec.layers},
          {"n_head", spec.heads},
          {"n_positions", spec.max_seq},
          {"vocab_size", spec.vocab},
          {"layer_norm_epsilon", spec.norm_eps},
          {"resid_pdrop", spec.dropout},
          {"embd_pdrop", spec.dropout},
          {"attn_pdrop", spec.dropout},
          {"tie_word_embeddings", true}};
}

}  // namespace

std::string hf_config_json(const ModelSpec& spec) {
  const Architecture architecture = architecture_of(spec);
  OrderedJson json = {{"architectures", OrderedJson::array({name_of(architecture).class_name})},
                      {"model_type", name_of(architecture).model_type},
                      {"torch_dtype", "float32"},
                      // Byte tokens have no such ids; transformers would else end texts at its own.
                      {"bos_token_id", nullptr},
                      {"eos_token_id", nullptr}};
  json.update(spec.is_llama() ? llama_json(spec, architecture) : gpt2_json(spec));
  return json.dump(2) + "\n";
}

ModelSpec model_spec_from_hf_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  if (!std::filesystem::is_regular_file(path)) {
    throw UsageError(
        fmt::format("[checkpoint] {}: no such file; a model's folder has a config.json that says "
                    "which model it holds; name such a folder",
                    path.string()));
  }
  ConfigReader reader(parse_json_object(read_text(path, kMaxConfigBytes), path.string()),
                      path.string());
  const Architecture architecture = read_architecture(reader);
  const ModelSpec spec =
      architecture == Architecture::kGpt2 ? read_gpt2(reader) : read_llama(reader, architecture);
  reader.refuse_unread();
  try {
    return resolved(spec);
  } catch (const UsageError& error) {
    throw ResourceError(fmt::format("[checkpoint] {}: {}", path.string(), error.what()));
  }
}

}  // namespace trireme
