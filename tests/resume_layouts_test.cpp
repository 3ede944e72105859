// Checkpoints of any layout under any other: what a rank reads, what is saved again, how it goes
// on.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "layout_models.h"
#include "step_harness.h"
#include "trireme/base/sanitized.h"
#include "trireme/base/test_files.h"
#include "trireme/checkpoint/store.h"
#include "trireme/train/checkpointing.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr Batch kBatch{.seq = 12, .micro_batch = 1, .global_batch = 12};
constexpr int kSavedStep = 2, kSteps = 4;

struct Named {
  const char* layout;
  /// Layouts of the same numerics train the same bits.
  const char* numerics;
};
/// Every one is saved and resumed under every other.
constexpr Named kLayouts[] = {
    {"dp=1", "one rank"},
    {"dp=2", "dp 2"},
    {"dp=2 zero=1 bucket_mib=0.01", "dp 2"},
    {"dp=3 zero=1 bucket_mib=0.01", "dp 3"},
    {"dp=4 zero=1 dp_shard=2 bucket_mib=0.01", "hybrid dp 4"},
    {"dp=2 zero=2 bucket_mib=0.01", "dp 2"},
    {"dp=3 zero=2 reduce=micro_batch", "dp 3, each micro-batch"},
    {"dp=2 zero=3", "dp 2"},
    {"dp=3 zero=3 prefetch=2 reshard=never", "dp 3"},
    {"cp=2", "cp 2"},
    {"cp=2 zero=1 bucket_mib=0.01", "cp 2"},
    {"dp=2 cp=2 zero=3", "dp 2 cp 2"},
    {"tp=2", "tp 2"},
    {"tp=2 sp=1", "sp 2"},
    {"tp=4", "tp 4"},
    {"pp=2 schedule=1f1b", "one rank"},
    {"pp=2 schedule=interleaved:2", "one rank"},
    {"pp=2 schedule=zb-v", "one rank"},
    {"pp=2 schedule=dualpipe", "dualpipe"},
    {"pp=2 dp=2 zero=1 schedule=1f1b", "dp 2"},
    {"dp=2 tp=2 zero=1", "dp 2 tp 2"},
    {"pp=2 dp=2 tp=2 zero=3 schedule=1f1b", "dp 2 tp 2"},
};
constexpr std::size_t kNumLayouts = std::size(kLayouts);

struct Training {
  const char* model;
  DType compute;
};
/// Each pair of layouts is tried with one of these.
constexpr Training kTrainings[] = {{"llama", DType::kF32},
                                   {"llama", DType::kBf16},
                                   {"qwen", DType::kBf16},
                                   {"gpt2", DType::kF32},
                                   {"gpt2", DType::kBf16}};
constexpr std::size_t kNumTrainings = std::size(kTrainings);

/// Each layout meets every training, as the one that saves, as the one that resumes, and both.
constexpr std::size_t training_of(std::size_t saved, std::size_t resumed) {
  return (saved + 2 * resumed) % kNumTrainings;
}

ModelSpec spec_of(const std::string& model) {
  ModelSpec spec = layout_models::spec_of(model);
  spec.qkv_bias = spec.qkv_bias && !spec.qk_norm;  // no file format has both
  return spec;
}

Layout layout_of(const std::string& text) {
  Layout layout;
  Batch batch = kBatch;
  parse_layout_text(text, layout, batch);
  return layout;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

fs::path saved_in(const fs::path& run_folder, int step) {
  return run_folder / "checkpoints" / ("step_0000000" + std::to_string(step));
}

void expect_equal_files(const fs::path& found, const fs::path& due) {
  for (const char* const name : {"model.safetensors", "optimizer.safetensors", "config.json"}) {
    EXPECT_FALSE(content(due / name).empty());
    EXPECT_TRUE(content(found / name) == content(due / name)) << name;
  }
}

/// Runs with one model, each from the start or from another's checkpoint.
class ResumedRuns {
 public:
  ResumedRuns(const ModelSpec& spec, DType compute, const fs::path& folder)
      : spec_(spec), compute_(compute), folder_(folder) {
    config_.model.spec = spec;
  }

  /// The whole run, with a checkpoint after kSavedStep.
  const HarnessResult& straight(const std::string& layout) {
    HarnessResult& result = straight_[layout];
    if (result.losses.empty()) {
      result = run_steps(spec_, layout_of(layout), kBatch,
                         {.steps = kSteps,
                          .checkpoint = folder_ / layout,
                          .checkpoint_step = kSavedStep,
                          .compute = compute_});
    }
    return result;
  }
  [[nodiscard]] fs::path checkpoint_of(const std::string& layout) const {
    return saved_in(folder_ / layout, kSavedStep);
  }

  /// The rest of the run from another layout's checkpoint, which is saved again before it goes on.
  [[nodiscard]] HarnessResult resumed(const std::string& saved, const std::string& layout) const {
    const Checkpoint checkpoint = open_checkpoint(checkpoint_of(saved));
    return run_steps(spec_, layout_of(layout), kBatch,
                     {.steps = kSteps - kSavedStep,
                      .fill =
                          [&](ModelState& state) {
                            const Resumed resumed =
                                resume_checkpoint(checkpoint, state, config_, Environment{});
                            EXPECT_EQ(resumed.run.step, kSavedStep);
                          },
                      .first_step = kSavedStep,
                      .checkpoint = folder_ / "again",
                      .checkpoint_step = kSavedStep,
                      .compute = compute_});
  }
  [[nodiscard]] fs::path saved_again() const { return saved_in(folder_ / "again", kSavedStep); }

 private:
  ModelSpec spec_;
  DType compute_;
  fs::path folder_;
  TrainConfig config_;
  std::map<std::string, HarnessResult> straight_;
};

std::vector<double> last(const std::vector<double>& values, std::size_t count) {
  return {values.end() - static_cast<std::ptrdiff_t>(count), values.end()};
}

void expect_same_bits(const HarnessResult& run, const HarnessResult& straight) {
  EXPECT_EQ(run.losses, last(straight.losses, run.losses.size()));
  EXPECT_EQ(run.grad_norms, last(straight.grad_norms, run.grad_norms.size()));
  EXPECT_EQ(first_difference(run.weights, straight.weights), "");
  EXPECT_EQ(first_difference(run.moments, straight.moments), "");
}

/// Bounds of the parity of layouts (layout_parity_test, bf16_layout_test).
void expect_equal_to_rounding(const HarnessResult& run, const HarnessResult& straight,
                              const Training& training) {
  const bool is_bf16 = training.compute == DType::kBf16;
  const double of_loss = is_bf16 ? 2e-3 : 1.6e-5, of_norm = is_bf16 ? 2e-2 : 1.6e-4;
  const auto losses = last(straight.losses, run.losses.size());
  const auto norms = last(straight.grad_norms, run.grad_norms.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], losses[i], of_loss * losses[i]);
    EXPECT_NEAR(run.grad_norms[i], norms[i], of_norm * norms[i]);
  }
  if (is_bf16) return;
  const double way = HarnessOptions{}.lr * kSteps;
  const TensorError change =
      largest_change(without_key_bias(run.weights), without_key_bias(straight.weights));
  EXPECT_LE(change.error, 0.005 * way) << change.name;
}

class Resume : public testing::TestWithParam<std::size_t> {};

// huggingface/nanotron #106, #68 and #221; NVIDIA/Megatron-LM #1517; EleutherAI/gpt-neox #773:
// optimizer state, tied or uneven, did not survive another tp or pp.
TEST_P(Resume, UnderAnyLayoutGoesOnAsThatLayoutsStraightRun) {
  const Training& training = kTrainings[GetParam()];
  const TestFolder folder;
  ResumedRuns runs(spec_of(training.model), training.compute, folder.path());
  for (std::size_t saved = 0; saved < kNumLayouts; ++saved) {
    for (std::size_t resumed = 0; resumed < kNumLayouts; ++resumed) {
      if (training_of(saved, resumed) != GetParam()) continue;
      if (kIsSanitized && (saved + resumed) % 4 != 0) continue;
      const auto [from, from_numerics] = kLayouts[saved];
      const auto [to, to_numerics] = kLayouts[resumed];
      SCOPED_TRACE(std::string(from) + " -> " + to);
      static_cast<void>(runs.straight(from));
      const HarnessResult& straight = runs.straight(to);
      const HarnessResult run = runs.resumed(from, to);
      expect_equal_files(runs.saved_again(), runs.checkpoint_of(from));
      std::string_view(from_numerics) == to_numerics
          ? expect_same_bits(run, straight)
          : expect_equal_to_rounding(run, straight, training);
    }
  }
}

std::string training_name(const testing::TestParamInfo<std::size_t>& test) {
  const Training& training = kTrainings[test.param];
  return std::string(training.model) + (training.compute == DType::kBf16 ? "_bf16" : "_fp32");
}

INSTANTIATE_TEST_SUITE_P(Any, Resume, testing::Range(std::size_t{0}, kNumTrainings), training_name);

// What each rank reads
// --------------------------------------------------------------------------------------------------

class Reading : public testing::Test {
 protected:
  /// Bytes of tensors, headers not counted, that each rank reads to resume one rank's checkpoint.
  std::vector<std::int64_t> bytes_read(const ModelSpec& spec, const std::string& layout) {
    if (!fs::exists(saved())) {
      static_cast<void>(run_steps(spec, {}, kBatch, {.steps = 0, .checkpoint = folder_.path()}));
    }
    TrainConfig config;
    config.model.spec = spec;
    const Checkpoint checkpoint = open_checkpoint(saved());
    const std::int64_t header =
        SafetensorsReader(saved() / "optimizer.safetensors").tensors().front().offset;
    const Layout of_run = layout_of(layout);
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(of_run.world()));
    static_cast<void>(
        run_steps(spec, of_run, kBatch,
                  {.steps = 0,
                   .fill =
                       [&](ModelState& state) {
                         bytes.at(static_cast<std::size_t>(state.rank())) =
                             resume_checkpoint(checkpoint, state, config, {}).bytes_read - header;
                       },
                   .checkpoint = folder_.path() / "again"}));
    expect_equal_files(saved_in(folder_.path() / "again", 0), saved());
    return bytes;
  }
  [[nodiscard]] fs::path saved() const { return saved_in(folder_.path(), 0); }

  static std::int64_t sum(const std::vector<std::int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
  }

  TestFolder folder_;
};

constexpr std::int64_t kAllThree = 12;  // bytes of an element's fp32 master and two moments

/// Elements that each rank of a tensor-parallel group holds.
std::int64_t replicated_elems(const ModelSpec& spec) {
  std::int64_t elems = 0;
  for (const Parameter& row : ParameterTable(spec).rows())
    elems += is_cut(row.tp_sharding) ? 0 : row.num_elems();
  return elems;
}

TEST_F(Reading, OfPipelineRanksIsTheFileOnce) {
  const ModelSpec spec = layout_models::llama();
  const std::int64_t elems = ParameterTable(spec).num_elems();
  EXPECT_EQ(sum(bytes_read(spec, "pp=4")), kAllThree * elems);
}

TEST_F(Reading, OfTensorRanksIsTheFileOnceButForNorms) {
  for (const std::string model : {"llama", "gpt2"}) {  // gpt2's lie transposed in the file
    fs::remove_all(folder_.path() / "checkpoints");
    const ModelSpec spec = spec_of(model);
    const std::int64_t elems = ParameterTable(spec).num_elems() + 3 * replicated_elems(spec);
    EXPECT_EQ(sum(bytes_read(spec, "tp=4")), kAllThree * elems);
  }
}

TEST_F(Reading, OfReplicasWithZero1IsTheMomentsOnce) {
  const ModelSpec spec = layout_models::gpt2();
  const std::int64_t elems = ParameterTable(spec).num_elems();
  EXPECT_EQ(sum(bytes_read(spec, "dp=3 zero=1 bucket_mib=0.01")), (3 * 4 + 8) * elems);
  EXPECT_EQ(sum(bytes_read(spec, "dp=3")), 3 * kAllThree * elems);
}

TEST_F(Reading, OfReplicasWithZero3IsTheFileOnce) {
  for (const std::string model : {"llama", "gpt2"}) {
    fs::remove_all(folder_.path() / "checkpoints");
    const ModelSpec spec = spec_of(model);
    EXPECT_EQ(sum(bytes_read(spec, "dp=4 zero=3")), kAllThree * ParameterTable(spec).num_elems());
  }
}

TEST_F(Reading, OfATiedTableIsOnFirstAndLastStage) {
  const ModelSpec spec = spec_of("qwen");
  const ParameterTable table(spec);
  const Parameter& tied = table.rows().at(static_cast<std::size_t>(table.head_index()));
  EXPECT_EQ(sum(bytes_read(spec, "pp=2")), kAllThree * (table.num_elems() + tied.num_elems()));
}

TEST_F(Reading, OfAllAxesIsWhatARankHolds) {
  const ModelSpec spec = layout_models::llama();
  const std::int64_t elems = ParameterTable(spec).num_elems() + replicated_elems(spec);
  const auto bytes = bytes_read(spec, "pp=2 dp=2 tp=2 zero=1");
  EXPECT_EQ(sum(bytes), (2 * 4 + 8) * elems);
  for (const std::int64_t of_rank : bytes) EXPECT_LT(of_rank, kAllThree * elems / 4);
}

// Tensors of more than a megabyte come in parts, by rows or by columns.
TEST_F(Reading, OfLargeTensorsInPartsIsAsComplete) {
  ModelSpec spec = layout_models::gpt2();
  spec.ffn = 48'000;
  spec.vocab = 50'257;
  spec.layers = 1;
  const std::int64_t elems = ParameterTable(spec).num_elems() + replicated_elems(spec);
  EXPECT_EQ(sum(bytes_read(spec, "tp=2")), kAllThree * elems);
}

}  // namespace
}  // namespace trireme
