// Small build requests for tests.
#pragma once

#include "trireme/program/build.h"

namespace trireme {

// Sanitized builds are many times slower and look for other faults: fewer programs show those as
// well.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

[[nodiscard]] inline ModelSpec small_llama() {
  return resolved({.family = Family::kLlama,
                   .layers = 2,
                   .hidden = 12,
                   .heads = 3,
                   .kv_heads = 1,
                   .head_dim = 4,
                   .ffn = 20,
                   .vocab = 23,
                   .max_seq = 16});
}

[[nodiscard]] inline ModelSpec small_gpt2() {
  return resolved({.family = Family::kGpt2,
                   .layers = 2,
                   .hidden = 12,
                   .heads = 3,
                   .vocab = 23,
                   .max_seq = 16,
                   .tied = true,
                   .dropout = 0.1});
}

[[nodiscard]] inline BuildRequest small_request(Layout layout, Batch batch,
                                                ModelSpec spec = small_llama()) {
  return {.spec = spec, .layout = layout, .batch = batch};
}

}  // namespace trireme
