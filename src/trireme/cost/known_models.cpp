#include "trireme/cost/known_models.h"

#include <algorithm>
#include <array>
#include <map>
#include <toml++/toml.h>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"
#include "trireme/base/words.h"
#include "trireme/cost/quantity_file.h"

namespace trireme {
namespace {

struct PricedModel {
  std::string_view name;
  ModelShape shape;
};

ModelShape gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocab,
               std::int64_t positions) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = heads,
          .head_dim = hidden / heads,
          .ffn = 4 * hidden,
          .vocab = vocab,
          .positions = positions,
          .is_tied = true,
          .has_biases = true};
}

/// Squared ReLU, no biases, two tables, no position table: arXiv:2402.16819, arXiv:2406.11704.
ModelShape nemotron(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                    std::int64_t kv_heads) {
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = hidden / heads,
          .ffn = 4 * hidden,
          .vocab = 256000};
}

/// Qwen2.5: config.json of Qwen/Qwen2.5-* on the Hugging Face hub.
ModelShape qwen(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                std::int64_t ffn) {
  const bool is_small = hidden <= 2048;
  return {.layers = layers,
          .hidden = hidden,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = hidden / heads,
          .ffn = ffn,
          .vocab = is_small ? 151936 : 152064,
          .is_gated = true,
          .is_tied = is_small};
}

const std::vector<PricedModel>& priced_models() {
  static const std::vector<PricedModel> models = {
      // NVIDIA NeMo-Framework-Launcher, launcher_scripts/conf/training.
      {"gpt3-5b", gpt(24, 4096, 32, 50304, 2048)},    {"gpt3-20b", gpt(44, 6144, 48, 50304, 2048)},
      {"nemotron-8b", nemotron(32, 4096, 32, 32)},    {"nemotron-22b", nemotron(40, 6144, 48, 48)},
      {"nemotron4-15b", nemotron(32, 6144, 48, 8)},    // arXiv:2402.16819, table 1
      {"nemotron4-340b", nemotron(96, 18432, 96, 8)},  // arXiv:2406.11704, table 1
      {"qwen2.5-1.5b", qwen(28, 1536, 12, 2, 8960)},  {"qwen2.5-3b", qwen(36, 2048, 16, 2, 11008)},
      {"qwen2.5-7b", qwen(28, 3584, 28, 4, 18944)},   {"qwen2.5-14b", qwen(48, 5120, 40, 8, 13824)},
      {"qwen2.5-32b", qwen(64, 5120, 40, 8, 27648)},
  };
  return models;
}

/// Lower case, letters and digits only.
std::string plain(std::string_view name) {
  std::string result;
  for (const char each : name) {
    if (is_letter_or_digit(each)) result += lower_case(each);
  }
  return result;
}

/// Names of the same model elsewhere.
const std::map<std::string, std::string, std::less<>>& aliases() {
  static const std::map<std::string, std::string, std::less<>> names = {
      {"1b", "playbook1b"},
      {"3b", "playbook3b"},
      {"8b", "playbook8b"},
      {"80b", "playbook80b"},
      {"gpt2", "gpt2124m"},
      {"llama3405b", "llama31405b"},
      {"nemotron340b", "nemotron4340b"},
      {"nemotron15b", "nemotron415b"},
      {"llama318b", "llama38b"},
      {"llama3170b", "llama370b"},
  };
  return names;
}

/// The keys of a models/*.toml, each of its type and none besides.
class ModelFile {
 public:
  ModelFile(const std::string& text, const std::string& name) : name_(name) {
    try {
      table_ = toml::parse(text, name);
    } catch (const toml::parse_error& error) {
      throw UsageError(fmt::format("[{}:{}] {}; correct the TOML", name, error.source().begin.line,
                                   error.description()));
    }
    constexpr std::array<std::string_view, 15> kKeys = {
        "family",  "layers",    "hidden",   "heads", "kv_heads", "head_dim", "ffn",    "vocab",
        "max_seq", "rope_base", "norm_eps", "tied",  "qkv_bias", "qk_norm",  "dropout"};
    for (const auto& [key, value] : table_) {
      if (std::find(kKeys.begin(), kKeys.end(), key.str()) != kKeys.end()) continue;
      refuse(
          value, key.str(),
          fmt::format("a model has no such key; did you mean {}?", nearest_name(key.str(), kKeys)));
    }
  }

  template <typename T>
  [[nodiscard]] T value_or(std::string_view key, T otherwise, std::string_view what) const {
    const toml::node* const node = table_.get(key);
    if (node == nullptr) return otherwise;
    constexpr bool kIsExact = std::is_same_v<T, bool>;  // a number is no flag
    const std::optional<T> value = kIsExact ? node->value_exact<T>() : node->value<T>();
    if (value) return *value;
    refuse(*node, key, fmt::format("must be {}; correct it", what));
  }
  [[nodiscard]] std::int64_t integer(std::string_view key) const {
    return value_or<std::int64_t>(key, 0, "a whole number");
  }
  [[nodiscard]] double real(std::string_view key, double otherwise) const {
    return value_or(key, otherwise, "a number");
  }
  [[nodiscard]] bool flag(std::string_view key) const {
    return value_or(key, false, "true or false");
  }
  [[nodiscard]] Family family() const {
    const auto name = value_or<std::string>("family", "llama", "llama or gpt2");
    if (name != "llama" && name != "gpt2")
      refuse(*table_.get("family"), "family", "must be llama or gpt2; correct it");
    return name == "gpt2" ? Family::kGpt2 : Family::kLlama;
  }

 private:
  [[noreturn]] void refuse(const toml::node& node, std::string_view key,
                           const std::string& rest) const {
    throw UsageError(fmt::format("[{}:{}] {}: {}", name_, node.source().begin.line, key, rest));
  }

  std::string name_;
  toml::table table_;
};

ModelSpec spec_of(const std::string& text, const std::string& name) {
  const ModelFile file(text, name);
  const ModelSpec defaults;
  const ModelSpec given = {.family = file.family(),
                           .layers = file.integer("layers"),
                           .hidden = file.integer("hidden"),
                           .heads = file.integer("heads"),
                           .kv_heads = file.integer("kv_heads"),
                           .head_dim = file.integer("head_dim"),
                           .ffn = file.integer("ffn"),
                           .vocab = file.integer("vocab"),
                           .max_seq = file.integer("max_seq"),
                           .rope_base = file.real("rope_base", defaults.rope_base),
                           .norm_eps = file.real("norm_eps", defaults.norm_eps),
                           .tied = file.flag("tied"),
                           .qkv_bias = file.flag("qkv_bias"),
                           .qk_norm = file.flag("qk_norm")};
  try {
    return resolved(given);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("[{}] {}", name, error.what()));
  }
}

const std::map<std::string, ModelSpec, std::less<>>& built_in_specs() {
  static const auto specs = [] {
    std::map<std::string, ModelSpec, std::less<>> result;
    for (const BuiltInFile& file : built_in_files()) {
      if (file.folder == "models") {
        result.emplace(plain(file.stem), spec_of(std::string(file.text), std::string(file.stem)));
      }
    }
    return result;
  }();
  return specs;
}

std::string key_of(std::string_view name) {
  std::string key = plain(name);
  const auto alias = aliases().find(key);
  return alias == aliases().end() ? key : alias->second;
}

}  // namespace

std::optional<ModelSpec> known_spec(std::string_view name_or_path) {
  if (name_or_path.ends_with(".toml")) {
    const std::string path(name_or_path);
    return spec_of(quantity_file_source(path, "models"), path);
  }
  const auto found = built_in_specs().find(key_of(name_or_path));
  if (found == built_in_specs().end()) return std::nullopt;
  return found->second;
}

std::optional<ModelShape> known_model(std::string_view name_or_path) {
  if (const auto spec = known_spec(name_or_path)) return shape_of(*spec);
  const std::string key = key_of(name_or_path);
  for (const PricedModel& model : priced_models()) {
    if (plain(model.name) == key) return model.shape;
  }
  return std::nullopt;
}

std::string trained_model_names() {
  std::vector<std::string_view> names;
  for (const BuiltInFile& file : built_in_files()) {
    if (file.folder == "models") names.push_back(file.stem);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string known_model_names() {
  std::vector<std::string_view> priced;
  for (const PricedModel& model : priced_models()) priced.push_back(model.name);
  return fmt::format("{}; priced alone, for other frameworks: {}", trained_model_names(),
                     fmt::join(priced, ", "));
}

}  // namespace trireme
