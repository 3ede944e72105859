#include "trireme/model/spec.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/nearest.h"

namespace trireme {
namespace {

constexpr std::int64_t kMaxSize = (std::int64_t{1} << 31) - 1;
// Keeps the table of a hostile configuration from filling the memory.
constexpr std::int64_t kMaxLayers = std::int64_t{1} << 14;
// Leaves room for 18 bytes of state and 6 FLOPs per parameter in a signed 64-bit integer.
constexpr double kMaxParameters = 0x1p58;

void check_range(std::string_view field, std::int64_t value, std::int64_t least,
                 std::int64_t most) {
  if (value >= least && value <= most) return;
  throw UsageError(fmt::format("[model] {} = {}: must be from {} to {}; use {}", field, value,
                               least, most, std::clamp(value, least, most)));
}

void check_positive(std::string_view field, double value) {
  if (std::isfinite(value) && value > 0.0) return;
  throw UsageError(fmt::format("[model] {} = {}: must be a finite number above 0; use {}", field,
                               value, field == "norm_eps" ? "1e-5" : "10000"));
}

// Sizes for which 0 stands for a derived value may still be 0 here.
void check_given_sizes(const ModelSpec& spec) {
  check_range("layers", spec.layers, 1, kMaxLayers);
  check_range("hidden", spec.hidden, 1, kMaxSize);
  check_range("heads", spec.heads, 1, kMaxSize);
  check_range("kv_heads", spec.kv_heads, 0, spec.heads);
  check_range("head_dim", spec.head_dim, 0, kMaxSize);
  check_range("ffn", spec.ffn, spec.is_llama() ? 1 : 0, kMaxSize);
  check_range("vocab", spec.vocab, 1, kMaxSize);
  check_range("max_seq", spec.max_seq, spec.is_llama() ? 0 : 1, kMaxSize);
}

void check_reals(const ModelSpec& spec) {
  check_positive("rope_base", spec.rope_base);
  check_positive("norm_eps", spec.norm_eps);
  if (spec.norm_eps > 1.0) {
    throw UsageError(
        fmt::format("[model] norm_eps = {}: must be at most 1; use 1e-5", spec.norm_eps));
  }
  if (!(spec.dropout >= 0.0 && spec.dropout < 1.0)) {
    throw UsageError(
        fmt::format("[model] dropout = {}: must be at least 0 and below 1; use 0 to switch it off",
                    spec.dropout));
  }
}

void fill_derived(ModelSpec& spec) {
  if (spec.kv_heads == 0) spec.kv_heads = spec.heads;
  if (spec.ffn == 0) spec.ffn = 4 * spec.hidden;
  if (!spec.is_llama()) spec.tied = true;
  if (spec.head_dim != 0) return;
  if (spec.hidden % spec.heads != 0) {
    const std::int64_t multiple = spec.is_llama() ? 2 * spec.heads : spec.heads;
    throw UsageError(fmt::format(
        "[model] hidden = {} with heads = {}: heads must divide hidden when head_dim is not set; "
        "use hidden = {}, or set head_dim",
        spec.hidden, spec.heads, nearest_multiples(spec.hidden, multiple, kMaxSize)));
  }
  spec.head_dim = spec.hidden / spec.heads;
}

void check_llama(const ModelSpec& spec) {
  if (spec.heads % spec.kv_heads != 0) {
    throw UsageError(fmt::format(
        "[model] kv_heads = {} with heads = {}: kv_heads must divide heads; use kv_heads = {}",
        spec.kv_heads, spec.heads, nearest_divisors(spec.heads, spec.kv_heads)));
  }
  if (spec.head_dim % 2 != 0) {
    throw UsageError(fmt::format(
        "[model] head_dim = {} (hidden = {}, heads = {}): RoPE rotates pairs of channels, so "
        "head_dim must be even; use head_dim = {}",
        spec.head_dim, spec.hidden, spec.heads, nearest_multiples(spec.head_dim, 2, kMaxSize)));
  }
  if (spec.dropout != 0.0) {
    throw UsageError(fmt::format(
        "[model] dropout = {} with family = llama: only gpt2 has dropout; use dropout = 0",
        spec.dropout));
  }
}

void check_gpt2(const ModelSpec& spec) {
  const auto refuse = [](std::string_view field, auto value, std::string_view rule_and_remedy) {
    throw UsageError(
        fmt::format("[model] {} = {} with family = gpt2: {}", field, value, rule_and_remedy));
  };
  if (spec.kv_heads != spec.heads) {
    refuse("kv_heads", spec.kv_heads,
           fmt::format("gpt2 has as many key/value heads as heads; use kv_heads = {}", spec.heads));
  }
  if (spec.heads * spec.head_dim != spec.hidden) {
    refuse("head_dim", spec.head_dim,
           fmt::format("heads * head_dim = {} must equal hidden = {}; leave head_dim out",
                       spec.heads * spec.head_dim, spec.hidden));
  }
  if (spec.qkv_bias) {
    refuse("qkv_bias", true, "gpt2 always has biases, this switch is llama's; leave it out");
  }
  if (spec.qk_norm) refuse("qk_norm", true, "only the llama family has it; use qk_norm = false");
  if (spec.rope_base != ModelSpec{}.rope_base) {
    refuse("rope_base", spec.rope_base, "gpt2 learns its positions, without RoPE; leave it out");
  }
}

// An upper bound in floating point, since the exact count may not fit an integer.
void check_total(const ModelSpec& spec) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double width = real(spec.hidden) + 1.0;  // one more for a bias
  const double q_width = real(spec.heads) * real(spec.head_dim);
  const double qkv_width = q_width + 2.0 * real(spec.kv_heads) * real(spec.head_dim);
  const double ffn_width = (spec.is_llama() ? 3.0 : 2.0) * real(spec.ffn) + 1.0;
  const double norms = 4.0 * width + 2.0 * real(spec.head_dim);
  const double layer = width * (qkv_width + q_width + 1.0 + ffn_width) + norms;
  const double total =
      width * (2.0 * real(spec.vocab) + real(spec.max_seq) + 2.0) + real(spec.layers) * layer;
  if (total <= kMaxParameters) return;
  throw UsageError(fmt::format(
      "[model] layers = {}, hidden = {}, heads = {}, head_dim = {}, ffn = {}, vocab = {}, "
      "max_seq = {}: about {:.1e} parameters; at most {:.1e} are possible, make a size smaller",
      spec.layers, spec.hidden, spec.heads, spec.head_dim, spec.ffn, spec.vocab, spec.max_seq,
      total, kMaxParameters));
}

}  // namespace

std::string_view family_name(Family family) {
  return family == Family::kLlama ? "llama" : "gpt2";
}

ModelSpec resolved(ModelSpec spec) {
  check_given_sizes(spec);
  check_reals(spec);
  fill_derived(spec);
  if (spec.is_llama()) {
    check_llama(spec);
  } else {
    check_gpt2(spec);
  }
  check_total(spec);
  return spec;
}

}  // namespace trireme
