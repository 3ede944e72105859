// One rank against every layout: loss, gradient norm, gradients and weights.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout_models.h"
#include "step_harness.h"
#include "trireme/base/errors.h"
#include "trireme/base/sanitized.h"
#include "trireme/base/test_files.h"
#include "trireme/program/pipeline.h"
#include "trireme/program/schedules/schedules.h"

namespace trireme {
namespace {

using namespace layout_models;  // NOLINT(google-build-using-namespace)

constexpr Batch kBatch{.seq = 16, .micro_batch = 1, .global_batch = 16};
const HarnessOptions kOptions{.steps = kIsSanitized ? 2 : 5, .eval_every = kIsSanitized ? 2 : 5};

const HarnessResult& reference(const std::string& model, std::int64_t micro_batch) {
  static std::map<std::pair<std::string, std::int64_t>, HarnessResult> results;
  auto& result = results[{model, micro_batch}];
  if (result.losses.empty()) {
    Batch batch = kBatch;
    batch.micro_batch = micro_batch;
    result = run_steps(spec_of(model), {}, batch, kOptions);
  }
  return result;
}

/// The bound grows with the depth of the model, as rounding does: 4e-6 a layer for gradients.
void expect_equal_to_rounding(const HarnessResult& run, const HarnessResult& due,
                              std::int64_t num_layers) {
  const double bound = 4e-6 * static_cast<double>(num_layers);
  ASSERT_EQ(run.losses.size(), due.losses.size());
  for (std::size_t i = 0; i < due.losses.size(); ++i) {
    EXPECT_NEAR(run.losses[i], due.losses[i], bound * due.losses[i]);
    EXPECT_NEAR(run.grad_norms[i], due.grad_norms[i], 10 * bound * due.grad_norms[i]);
  }
  for (std::size_t i = 0; i < due.eval_losses.size(); ++i)
    EXPECT_NEAR(run.eval_losses[i], due.eval_losses[i], bound * due.eval_losses[i]);
  const TensorError gradients = largest_error(run.first_gradients, due.first_gradients);
  EXPECT_LE(gradients.error, bound) << gradients.name;
  // AdamW divides a gradient by its own size: where it is near zero, its rounding is part of a
  // step.
  const double way = kOptions.lr * kOptions.steps;
  const TensorError weights =
      largest_change(without_key_bias(run.weights), without_key_bias(due.weights));
  EXPECT_LE(weights.error, 0.01 * way) << weights.name;
}

/// What the first checkpoint of a layout holds, byte by byte.
std::string first_checkpoint(const std::string& model, const Layout& layout,
                             const std::filesystem::path& folder) {
  HarnessOptions options;
  options.steps = 0;
  options.checkpoint = folder;
  ModelSpec spec = spec_of(model);
  spec.qkv_bias = spec.qkv_bias && !spec.qk_norm;  // no file format has both
  static_cast<void>(run_steps(spec, layout, kBatch, options));
  std::string bytes;
  for (const char* const name : {"model.safetensors", "optimizer.safetensors"}) {
    std::ifstream file(folder / "checkpoints" / "step_00000000" / name, std::ios::binary);
    bytes.append(std::istreambuf_iterator<char>(file), {});
  }
  return bytes;
}

TEST(FirstCheckpoint, IsTheSameFileUnderEveryLayout) {
  const TestFolder folder;
  for (const std::string model : {"llama", "qwen", "gpt2"}) {
    const std::string due = first_checkpoint(model, {}, folder.path() / model);
    EXPECT_GT(due.size(), 100'000U);
    for (const Layout& layout :
         {Layout{.dp = 2, .zero = 1}, Layout{.tp = 4}, Layout{.tp = 2, .sp = true}, Layout{.pp = 4},
          Layout{.pp = 2, .schedule = "zb-v"}, Layout{.pp = 2, .schedule = "dualpipe"},
          Layout{.pp = 2, .schedule = "interleaved"},
          Layout{.pp = 2, .dp = 2, .tp = 2, .sp = true, .zero = 1}}) {
      const std::string text = layout_text(layout, kBatch);
      EXPECT_TRUE(first_checkpoint(model, layout, folder.path() / (model + text)) == due)
          << model << " " << text;
    }
  }
}

// Schedules from files
// --------------------------------------------------------------------------------------------------

TEST(ScheduleFile, TrainsAsTheScheduleThatItHolds) {
  const TestFolder folder;
  const Schedule schedule = make_schedule("zb-h1", {.ranks = 2, .micro_batches = 16});
  const std::string path = folder.write("zb-h1.csv", schedule_csv(schedule));
  const HarnessResult run = run_steps(gpt2(), {.pp = 2, .schedule = path}, kBatch, kOptions);
  expect_equal_bits(run, reference("gpt2", 1));
}

TEST(ScheduleFile, MayPutTheStagesOnAnyRank) {
  const TestFolder folder;
  Schedule schedule = make_schedule("1f1b", {.ranks = 3, .micro_batches = 16});
  std::rotate(schedule.orders.begin(), schedule.orders.begin() + 1, schedule.orders.end());
  const std::string path = folder.write("rotated.csv", schedule_csv(schedule));
  for (const std::string model : {"llama", "gpt2"}) {  // gpt2's table is tied across ranks 2 and 1
    const HarnessResult run =
        run_steps(spec_of(model), {.pp = 3, .schedule = path}, kBatch, kOptions);
    expect_equal_bits(run, reference(model, 1));
  }
}

// Further layouts, drawn at random
// --------------------------------------------------------------------------------------------------

class LayoutDraw {
 public:
  explicit LayoutDraw(unsigned seed) : engine_(seed) {}

  /// A layout of at most 8 ranks that the model allows.
  Case next() {
    while (true) {
      const std::string text = layout_line();
      const std::string model = one_of({"llama", "qwen", "gpt2"});
      Layout layout;
      Batch batch = kBatch;
      parse_layout_text(text, layout, batch);
      try {
        check_layout(spec_of(model), layout, batch);
        const auto num_micro_batches = static_cast<int>(batch.num_micro_batches(layout));
        static_cast<void>(Pipeline(spec_of(model), layout, num_micro_batches));
        return {.layout = text, .model = model};
      } catch (const UsageError&) {  // draw again
      }
    }
  }

 private:
  std::string one_of(const std::vector<std::string>& values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(engine_)];
  }

  std::string layout_line() {
    const std::string degrees = one_of(
        {"pp=1 dp=1 tp=1 cp=2", "pp=1 dp=1 tp=1 cp=4", "pp=1 dp=1 tp=2 cp=2", "pp=1 dp=1 tp=2 cp=4",
         "pp=1 dp=2 tp=1 cp=2", "pp=1 dp=2 tp=2 cp=2", "pp=2 dp=1 tp=1 cp=2", "pp=2 dp=1 tp=1 cp=4",
         "pp=2 dp=1 tp=2 cp=2", "pp=2 dp=2 tp=1 cp=2", "pp=1 dp=1 tp=2",      "pp=1 dp=1 tp=4",
         "pp=1 dp=2 tp=2",      "pp=1 dp=2 tp=4",      "pp=1 dp=4 tp=2",      "pp=2 dp=1 tp=1",
         "pp=2 dp=1 tp=2",      "pp=2 dp=1 tp=4",      "pp=2 dp=2 tp=1",      "pp=2 dp=2 tp=2",
         "pp=2 dp=4 tp=1",      "pp=3 dp=1 tp=1",      "pp=3 dp=2 tp=1",      "pp=3 dp=1 tp=2",
         "pp=4 dp=1 tp=1",      "pp=4 dp=2 tp=1",      "pp=4 dp=1 tp=2"});
    std::vector<std::string> schedules;
    for (const ScheduleKind& kind : schedule_kinds()) schedules.emplace_back(kind.name);
    std::string text = degrees + " schedule=" + one_of(schedules);
    text += " cp_comm=" + one_of({"ring", "all_gather"});
    text +=
        " " + one_of({"zero=0", "zero=0 dp_sync=naive", "zero=1", "zero=1 dp_sync=bucketed",
                      "zero=2", "zero=2 reduce=micro_batch", "zero=3", "zero=3 reduce=micro_batch",
                      "zero=3 reshard=never prefetch=0", "zero=3 reshard=always prefetch=2"});
    text += " mbs=" + one_of({"1", "1", "2"}) + " bucket_mib=0.01";
    text += " recompute=" + one_of({"none", "selective", "full"});
    if (degrees.find("tp=1") == std::string::npos) text += " sp=" + one_of({"0", "1"});
    return text;
  }

  std::mt19937 engine_;
};

void check_case(const Case& test) {
  Layout layout;
  Batch batch = kBatch;
  parse_layout_text(test.layout, layout, batch);
  const ModelSpec spec = spec_of(test.model);
  const HarnessResult run = run_steps(spec, layout, batch, kOptions);
  const HarnessResult& due = reference(test.model, test.is_bitwise ? batch.micro_batch : 1);
  if (test.is_bitwise) {
    EXPECT_EQ(run.eval_losses, due.eval_losses);
  }
  test.is_bitwise ? expect_equal_bits(run, due) : expect_equal_to_rounding(run, due, spec.layers);
  EXPECT_EQ(run.allocated_bytes, run.planned_bytes);
  EXPECT_EQ(run.bytes_sent, run.predicted_sent);
}

int from_environment(const char* name, int otherwise) {
  const char* const given = std::getenv(name);
  return given == nullptr ? otherwise : std::atoi(given);
}

/// TRIREME_TEST_SEED draws others, TRIREME_TEST_DRAWS as many.
TEST(RandomLayouts, EqualOneRank) {
  const int seed = from_environment("TRIREME_TEST_SEED", 4);
  const int num_draws = kIsSanitized ? 3 : from_environment("TRIREME_TEST_DRAWS", 15);
  LayoutDraw draw(static_cast<unsigned>(seed));
  for (int i = 0; i < num_draws; ++i) {
    const Case test = draw.next();
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ", draw " << i << ": " << test.model << " " << test.layout);
    check_case(test);
  }
}

// What cuts neither sequences nor sums over replicas changes no bit of what context parallelism
// computes.
TEST(ContextParallelism, IsTheSameInEveryBitUnderPipelinesRecomputationAndZero1) {
  for (const std::string model : {"llama", "qwen", "gpt2"}) {
    for (const CpComm comm : {CpComm::kRing, CpComm::kAllGather}) {
      const Layout plain{.cp = 2, .cp_comm = comm};
      const HarnessResult due = run_steps(spec_of(model), plain, kBatch, kOptions);
      for (Layout layout :
           {Layout{.recompute = Recompute::kSelective}, Layout{.recompute = Recompute::kFull},
            Layout{.zero = 1, .bucket_mib = 0.002}, Layout{.dp_sync = DpSync::kNaive},
            Layout{.pp = 2, .schedule = "zb-v"},
            Layout{.pp = 4, .schedule = "1f1b", .recompute = Recompute::kFull}}) {
        layout.cp = 2;
        layout.cp_comm = comm;
        SCOPED_TRACE(model + " " + layout_text(layout, kBatch));
        expect_equal_bits(run_steps(spec_of(model), layout, kBatch, kOptions), due);
      }
    }
  }
}

class LayoutParity : public testing::TestWithParam<Case> {};

TEST_P(LayoutParity, EqualsOneRank) {
  check_case(GetParam());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::string> models = {"llama", "qwen", "gpt2"};
  for (const std::string& model : models) {
    // Pipelines whose micro-batches ascend: the same bits as without.
    for (const char* const layout :
         {"pp=2 schedule=naive", "pp=2 schedule=gpipe", "pp=2 schedule=1f1b mbs=2",
          "pp=4 schedule=1f1b", "pp=4 schedule=1f1b-eager", "pp=2 schedule=interleaved:2",
          "pp=4 schedule=1f1b recompute=full", "pp=2 schedule=interleaved:2 recompute=selective",
          "pp=2 schedule=zb-h1", "pp=4 schedule=zb-h1", "pp=4 schedule=zb-h2", "pp=2 schedule=zb-v",
          "pp=2 schedule=zb-v recompute=full", "pp=2 schedule=dualpipe-v",
          "pp=3 schedule=1f1b stages=0,3,1", "pp=2 schedule=1f1b stages=4,0"}) {
      all.push_back({layout, model, true});
    }
    for (const char* const layout :
         {"pp=2 schedule=gpipe-lifo",
          "pp=2 schedule=breadth-first:2",
          "pp=2 schedule=dualpipe",
          "pp=4 schedule=dualpipe",
          "tp=2",
          "tp=4",
          "tp=2 recompute=full",
          "tp=2 recompute=selective mbs=2",
          "dp=2 tp=2",
          "dp=2 tp=2 zero=1",
          "pp=2 tp=2 schedule=1f1b",
          "pp=2 tp=2 schedule=zb-h1",
          "pp=2 dp=2 schedule=1f1b",
          "pp=2 dp=2 zero=1 schedule=zb-v",
          "pp=2 dp=2 tp=2 schedule=1f1b",
          "pp=2 dp=2 tp=2 zero=1 schedule=1f1b dp_sync=naive",
          "pp=2 dp=2 tp=2 zero=1 schedule=zb-v recompute=selective",
          "pp=2 dp=2 tp=2 zero=1 schedule=interleaved:2 recompute=full",
          "tp=2 sp=1",
          "tp=4 sp=1",
          "tp=4 sp=1 mbs=2",
          "tp=2 sp=1 recompute=selective",
          "tp=2 sp=1 recompute=full",
          "dp=2 tp=2 sp=1 zero=1",
          "pp=2 tp=2 sp=1 schedule=1f1b",
          "pp=2 tp=2 sp=1 schedule=zb-v",
          "pp=2 dp=2 tp=2 sp=1 zero=1 schedule=zb-h1 recompute=selective",
          "pp=2 tp=2 sp=1 schedule=dualpipe",
          "pp=2 tp=4 sp=1 schedule=interleaved:2",
          "dp=2 zero=2",
          "dp=4 zero=2 reduce=micro_batch",
          "dp=2 zero=3",
          "dp=4 zero=3 prefetch=0",
          "dp=4 zero=3 prefetch=2 reshard=never",
          "dp=2 zero=3 reduce=micro_batch recompute=full",
          "dp=4 zero=1 dp_shard=2",
          "dp=4 zero=3 dp_shard=2 reduce=micro_batch",
          "dp=2 tp=2 zero=2 reduce=micro_batch",
          "dp=2 tp=2 sp=1 zero=3",
          "dp=2 tp=2 sp=1 zero=3 reduce=micro_batch recompute=selective",
          "pp=2 dp=2 zero=3 schedule=1f1b",
          "pp=2 dp=2 zero=3 schedule=1f1b reshard=always reduce=micro_batch",
          "pp=2 dp=2 zero=2 schedule=zb-v",
          "pp=2 dp=2 zero=3 schedule=zb-v reshard=always",
          "pp=2 dp=2 zero=3 schedule=dualpipe",
          "pp=2 dp=2 tp=2 zero=3 schedule=interleaved:2",
          "pp=2 dp=2 tp=2 sp=1 zero=3 schedule=zb-h1 recompute=full",
          "pp=2 dp=2 tp=2 sp=1 zero=2 reduce=micro_batch schedule=breadth-first:2",
          "cp=2",
          "cp=4",
          "cp=4 mbs=2",
          "cp=2 cp_comm=all_gather",
          "cp=4 cp_comm=all_gather",
          "cp=4 mbs=2 cp_comm=all_gather",
          "cp=4 recompute=full",
          "cp=4 recompute=full cp_comm=all_gather",
          "cp=2 tp=2",
          "cp=2 tp=2 cp_comm=all_gather",
          "cp=2 tp=2 sp=1 recompute=selective",
          "cp=2 tp=2 sp=1 cp_comm=all_gather",
          "cp=4 tp=2 sp=1 recompute=full",
          "dp=2 cp=2",
          "dp=2 cp=4 zero=1",
          "dp=2 cp=2 zero=1 dp_sync=naive cp_comm=all_gather",
          "pp=2 cp=2 schedule=1f1b",
          "pp=2 cp=2 schedule=interleaved:2",
          "pp=2 cp=2 schedule=zb-v",
          "pp=2 cp=2 schedule=dualpipe",
          "pp=2 cp=2 schedule=zb-h1 recompute=selective cp_comm=all_gather",
          "pp=2 cp=2 tp=2 schedule=1f1b",
          "pp=2 cp=2 tp=2 sp=1 schedule=zb-v recompute=full",
          "pp=2 dp=2 cp=2 zero=1 schedule=zb-h1 recompute=selective",
          "cp=4 zero=2",
          "cp=2 zero=3 recompute=full cp_comm=all_gather",
          "dp=2 cp=2 zero=3 reduce=micro_batch",
          "dp=2 cp=2 zero=3 dp_shard=1",
          "pp=2 cp=2 zero=3 schedule=zb-v reshard=always",
          "pp=2 cp=2 tp=2 sp=1 zero=2 reduce=micro_batch schedule=1f1b"}) {
      all.push_back({layout, model, false});
    }
  }
  for (const char* const layout :
       {"pp=4 dp=2 zero=2 schedule=zb-v", "pp=4 dp=2 zero=3 schedule=zb-v reshard=always",
        "pp=4 dp=2 zero=3 schedule=interleaved:2 recompute=full"}) {
    all.push_back({layout, "deep", false});
  }
  if (!kIsSanitized) return all;
  std::vector<Case> few;
  for (std::size_t i = 0; i < all.size(); i += 7) few.push_back(all[i]);
  return few;
}

INSTANTIATE_TEST_SUITE_P(All, LayoutParity, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace trireme
