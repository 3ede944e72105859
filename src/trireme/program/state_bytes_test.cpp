// Model state of placed programs beside the closed forms, and the page that shows both.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "trireme/base/units.h"
#include "trireme/program/place.h"
#include "trireme/program/roots.h"
#include "trireme/program/test_programs.h"

namespace trireme {
namespace {

/// A cut of the state that the page shows. Bytes a parameter with n = dp.
struct Division {
  const char* name;
  Layout layout;
  const char* bf16_form;
  const char* fp32_form;
};

std::vector<Division> divisions() {
  constexpr auto kMicroBatch = GradientReduction::kMicroBatch;
  return {{"0", {.zero = 0}, "18", "16"},
          {"1", {.zero = 1}, "6 + 12/n", "8 + 8/n"},
          {"2", {.zero = 2}, "6 + 12/n", "8 + 8/n"},
          {"2, each micro-batch", {.zero = 2, .reduce = kMicroBatch}, "2 + 16/n", "4 + 12/n"},
          {"3", {.zero = 3}, "4 + 14/n", "4 + 12/n"},
          {"3, each micro-batch", {.zero = 3, .reduce = kMicroBatch}, "18/n", "16/n"}};
}

/// The model of configs/demo.toml.
ModelSpec demo_model() {
  return resolved({.family = Family::kLlama,
                   .layers = 6,
                   .hidden = 384,
                   .heads = 6,
                   .kv_heads = 2,
                   .ffn = 1024,
                   .vocab = 256,
                   .max_seq = 256});
}

struct Case {
  Division division;
  int dp = 1;
  DType compute = DType::kF32;
};

Program program_of(const Case& test) {
  BuildRequest request =
      small_request(test.division.layout, {.seq = 8, .global_batch = 16}, demo_model());
  request.layout.dp = test.dp;
  request.layout.bucket_mib = 1;
  request.compute = test.compute;
  return build_train(request);
}

StateBytes placed_bytes(const Program& program) {
  const KindBytes bytes = place({&program}).kind_bytes;
  const auto of = [&](MemoryKind kind) { return bytes.at(static_cast<std::size_t>(kind)); };
  return {.parameters = of(MemoryKind::kParameters),
          .gradients = of(MemoryKind::kGradients),
          .master = of(MemoryKind::kMaster),
          .moments = of(MemoryKind::kMoments)};
}

/// With a reduction once a step, gradients of several micro-batches add up whole.
StateBytes closed_form(const Case& test) {
  const std::int64_t num_elems = ParameterTable(demo_model()).num_elems();
  const auto form = [&](int zero) {
    return model_state_bytes(num_elems, test.compute == DType::kBf16, zero, test.dp);
  };
  StateBytes bytes = form(test.division.layout.zero);
  if (test.division.layout.reduce == GradientReduction::kStep) bytes.gradients = form(0).gradients;
  return bytes;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const DType compute : {DType::kBf16, DType::kF32}) {
    for (const Division& division : divisions()) {
      for (const int dp : {1, 2, 4, 8}) all.push_back({division, dp, compute});
    }
  }
  return all;
}

// Roots are padded, so that each shard of each is aligned; nothing else is added.
TEST(StateBytes, OfPlacedProgramsAreTheClosedFormsButForPadding) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(fmt::format("{} dp {} {}", test.division.name, test.dp, dtype_name(test.compute)));
    const Program program = program_of(test);
    const StateBytes placed = placed_bytes(program), form = closed_form(test);
    const std::int64_t num_padding = num_roots(program) * root_unit(program) * test.dp;
    const auto expect_padded = [&](std::int64_t found, std::int64_t due, std::int64_t elem_bytes) {
      EXPECT_GE(found, due);
      EXPECT_LE(found, due + num_padding * elem_bytes);
    };
    expect_padded(placed.parameters, form.parameters, dtype_bytes(test.compute));
    expect_padded(placed.gradients, form.gradients, 4);
    expect_padded(placed.master, form.master, 4);
    expect_padded(placed.moments, form.moments, 8);
  }
}

std::string page() {
  const std::int64_t num_elems = ParameterTable(demo_model()).num_elems();
  std::string text = fmt::format(
      R"(<!-- Generated from placed programs (src/trireme/program/state_bytes_test.cpp); a test compares. -->
# Bytes of model state per rank

What a rank allocates for the model of `configs/demo.toml`, {} parameters, in buckets of 1 MiB of
gradients: bytes of the placed training program, which are those of the arena. Beside it the closed
form (Rajbhandari et al. 2019, arXiv:1910.02054, figure 1, with fp32 gradients), where n is the
number of ranks that hold the same parameters. The difference is padding: each shard of a bucket
begins at 64 bytes. tp and pp divide the parameters, and with them every column; sp divides
activations alone.

With ZeRO-2 and 3 gradients are reduced once a step, for which several micro-batches add up whole
gradients, or after each micro-batch (`layout.reduce`). What passes by, a bucket that is reduced at
once or a layer that ZeRO-3 has gathered, is no state: it counts as activations or communication.

| compute | ZeRO | dp | parameters | gradients | master | moments | all | closed form | bytes a parameter | is |
|---|---|--:|--:|--:|--:|--:|--:|--:|---|--:|
)",
      format_count(num_elems));
  for (const Case& test : cases()) {
    const StateBytes placed = placed_bytes(program_of(test));
    const bool is_bf16 = test.compute == DType::kBf16;
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.3f} |\n",
                        is_bf16 ? "bf16" : "fp32", test.division.name, test.dp, placed.parameters,
                        placed.gradients, placed.master, placed.moments, placed.total(),
                        closed_form(test).total(),
                        is_bf16 ? test.division.bf16_form : test.division.fp32_form,
                        static_cast<double>(placed.total()) / static_cast<double>(num_elems));
  }
  return text;
}

TEST(StateBytesPage, IsUpToDate) {
  std::ifstream file(TRIREME_STATE_BYTES_PAGE, std::ios::binary);
  const std::string found{std::istreambuf_iterator<char>(file), {}};
  const std::string generated_path = testing::TempDir() + "state_bytes.md";
  std::ofstream(generated_path, std::ios::binary) << page();
  EXPECT_TRUE(found == page()) << "what programs allocate has changed; cp " << generated_path << ' '
                               << TRIREME_STATE_BYTES_PAGE;
}

}  // namespace
}  // namespace trireme
