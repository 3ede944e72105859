// Small build requests for tests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/program/build.h"
#include "trireme/program/verify.h"

namespace trireme {

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

/// Programs of `build` for every rank of the request's layout, by rank.
template <typename Build>
[[nodiscard]] std::vector<Program> all_ranks(BuildRequest request, Build build) {
  std::vector<Program> programs;
  for (request.rank = 0; request.rank < request.layout.world(); ++request.rank)
    programs.push_back(build(request));
  return programs;
}
[[nodiscard]] inline std::vector<Program> all_ranks(const BuildRequest& request) {
  return all_ranks(request, [](const BuildRequest& of_rank) { return build_train(of_rank); });
}

/// Violation text, or "" for none.
[[nodiscard]] inline std::string fault(const std::optional<Violation>& violation) {
  return violation ? violation->rule + ": " + violation->message : "";
}

[[nodiscard]] inline BuildRequest small_request(Layout layout, Batch batch,
                                                ModelSpec spec = small_llama()) {
  return {.spec = spec, .layout = layout, .batch = batch};
}

}  // namespace trireme
