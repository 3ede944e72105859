// Tests only: models that every layout of up to 8 ranks can train, and tests named by layout and
// model.
#pragma once

#include <algorithm>
#include <cctype>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include "trireme/model/spec.h"

namespace trireme::layout_models {

/// Every size but the vocabulary divides by 4, for tensor parallelism; grouped heads; no two sizes
/// alike.
inline ModelSpec llama(std::int64_t vocab = 31, std::int64_t max_seq = 20) {
  return resolved({.family = Family::kLlama,
                   .layers = 4,
                   .hidden = 24,
                   .heads = 8,
                   .kv_heads = 4,
                   .head_dim = 6,
                   .ffn = 36,
                   .vocab = vocab,
                   .max_seq = max_seq});
}
inline ModelSpec qwen() {
  ModelSpec spec = llama();
  spec.tied = true;
  spec.qkv_bias = true;
  spec.qk_norm = true;
  return resolved(spec);
}
inline ModelSpec gpt2(std::int64_t max_seq = 20) {
  return resolved({.family = Family::kGpt2,
                   .layers = 4,
                   .hidden = 24,
                   .heads = 4,
                   .vocab = 31,
                   .max_seq = max_seq,
                   .tied = true,
                   .dropout = 0.1});
}

/// For eight stages.
inline ModelSpec deep() {
  ModelSpec spec = llama();
  spec.layers = 8;
  return resolved(spec);
}

/// By "llama", "qwen", "gpt2" or "deep".
inline ModelSpec spec_of(const std::string& model) {
  if (model == "deep") return deep();
  return model == "llama" ? llama() : model == "qwen" ? qwen() : gpt2();
}

struct Case {
  std::string layout;  ///< layout text
  std::string model;   ///< as spec_of
  bool is_bitwise = false;
};

inline void PrintTo(const Case& test, std::ostream* out) {
  *out << test.model << " " << test.layout;
}

inline std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.model + "_" + info.param.layout;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace trireme::layout_models
