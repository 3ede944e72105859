#include "trireme/program/instruction.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace trireme {
namespace {

constexpr std::array<std::string_view, kNumOps> kOps = {
    "LOAD",       "COUNT",          "FWD",        "BWD",     "BWD_I",   "BWD_W",   "RECOMP",
    "ZERO",       "COPY",           "ADD",        "INVERSE", "NORM_SQ", "CLIP",    "OPT_STEP",
    "ALL_REDUCE", "REDUCE_SCATTER", "ALL_GATHER", "SEND",    "RECV",    "EXCHANGE"};
constexpr std::array<std::string_view, kNumParts> kParts = {
    "NONE",     "EMBED",       "ATTN_NORM", "QKV",       "ROPE",      "ATTN",
    "PROJ",     "MLP_NORM",    "MLP_UP",    "ACT",       "MLP_DOWN",  "FINAL_NORM",
    "DROPOUT",  "HEAD",        "LOGITS",    "STAGE_IN",  "STAGE_OUT", "ROW_BIAS",
    "POSITION", "HEAD_LOGITS", "HEAD_SUMS", "HEAD_LOSS", "RING_KV",   "RING_DKV"};
constexpr std::array<std::string_view, kNumRoles> kRoles = {
    "tokens", "labels", "samples",  "x",     "delta",   "h",       "w",      "b",
    "w2",     "y",      "stats",    "cos",   "sin",     "q_norm",  "k_norm", "q",
    "k",      "v",      "lse",      "dy",    "dx",      "dh",      "dw",     "db",
    "dw2",    "dq",     "dk",       "dv",    "dq_norm", "dk_norm", "scale",  "loss",
    "logits", "length", "hyper",    "coef",  "norm_sq", "param",   "m",      "v2",
    "grad",   "data",   "received", "shard", "row_max", "master",  "sums",   "workspace"};
constexpr std::array<std::string_view, 4> kAccesses = {"R", "W", "RW", "A"};
constexpr std::array<std::string_view, kNumStreams> kStreams = {"compute", "comm", "tensor", "pipe",
                                                                "context"};
constexpr std::array<std::string_view, 5> kSites = {"none", "embed", "attn_probs", "attn_residual",
                                                    "mlp_residual"};

template <typename Enum, std::size_t N>
std::string_view name_in(const std::array<std::string_view, N>& names, Enum value) {
  return names.at(static_cast<std::size_t>(value));
}

template <typename Enum, std::size_t N>
std::optional<Enum> value_in(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

const Use* Instruction::find(Role role) const {
  for (const Use& use : uses) {
    if (use.role == role) return &use;
  }
  return nullptr;
}

Use* Instruction::find(Role role) {
  for (Use& use : uses) {
    if (use.role == role) return &use;
  }
  return nullptr;
}

std::string_view op_name(Op op) {
  return name_in(kOps, op);
}
std::string_view part_name(Part part) {
  return name_in(kParts, part);
}
std::string_view role_name(Role role) {
  return name_in(kRoles, role);
}
std::string_view access_name(Access access) {
  return name_in(kAccesses, access);
}
std::string_view stream_name(Stream stream) {
  return name_in(kStreams, stream);
}
std::string_view site_name(Site site) {
  return name_in(kSites, site);
}

std::optional<Op> parse_op(std::string_view name) {
  return value_in<Op>(kOps, name);
}
std::optional<Part> parse_part(std::string_view name) {
  return value_in<Part>(kParts, name);
}
std::optional<Role> parse_role(std::string_view name) {
  return value_in<Role>(kRoles, name);
}
std::optional<Access> parse_access(std::string_view name) {
  return value_in<Access>(kAccesses, name);
}
std::optional<Stream> parse_stream(std::string_view name) {
  return value_in<Stream>(kStreams, name);
}
std::optional<Site> parse_site(std::string_view name) {
  return value_in<Site>(kSites, name);
}

}  // namespace trireme
