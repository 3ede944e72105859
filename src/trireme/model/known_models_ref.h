// Shapes of public models, written out from their config.json files, for tests.
#pragma once

#include "trireme/model/spec.h"

namespace trireme::known_models {

inline ModelSpec llama_2_7b() {
  return resolved({.layers = 32,
                   .hidden = 4096,
                   .heads = 32,
                   .kv_heads = 32,
                   .ffn = 11008,
                   .vocab = 32000,
                   .max_seq = 4096});
}

inline ModelSpec llama_3_8b() {
  return resolved({.layers = 32,
                   .hidden = 4096,
                   .heads = 32,
                   .kv_heads = 8,
                   .ffn = 14336,
                   .vocab = 128256,
                   .max_seq = 8192,
                   .rope_base = 500000.0});
}

inline ModelSpec tinyllama_1b() {
  return resolved({.layers = 22,
                   .hidden = 2048,
                   .heads = 32,
                   .kv_heads = 4,
                   .ffn = 5632,
                   .vocab = 32000,
                   .max_seq = 2048});
}

inline ModelSpec qwen2_5_0_5b() {
  return resolved({.layers = 24,
                   .hidden = 896,
                   .heads = 14,
                   .kv_heads = 2,
                   .ffn = 4864,
                   .vocab = 151936,
                   .max_seq = 32768,
                   .rope_base = 1e6,
                   .norm_eps = 1e-6,
                   .tied = true,
                   .qkv_bias = true});
}

inline ModelSpec qwen1_5_72b() {
  return resolved({.layers = 80,
                   .hidden = 8192,
                   .heads = 64,
                   .kv_heads = 64,
                   .ffn = 24576,
                   .vocab = 152064,
                   .max_seq = 32768,
                   .rope_base = 1e6,
                   .norm_eps = 1e-6,
                   .qkv_bias = true});
}

inline ModelSpec qwen3_32b() {
  return resolved({.layers = 64,
                   .hidden = 5120,
                   .heads = 64,
                   .kv_heads = 8,
                   .head_dim = 128,
                   .ffn = 25600,
                   .vocab = 151936,
                   .max_seq = 40960,
                   .rope_base = 1e6,
                   .norm_eps = 1e-6,
                   .qk_norm = true});
}

inline ModelSpec gpt2_124m() {
  return resolved({.family = Family::kGpt2,
                   .layers = 12,
                   .hidden = 768,
                   .heads = 12,
                   .vocab = 50257,
                   .max_seq = 1024});
}

}  // namespace trireme::known_models
