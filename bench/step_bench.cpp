// Tokens per second of one rank's training step beside its matrix products alone, through the same
// seam and through plain oneDNN, in one run.
//
//     build/release/trireme_bench_step [--models gpt2,llama] [--types fp32,bf16] [--threads 1,2]
//         [--repetitions 3] [--micro-batch 4] [--seq 1024] [--json FILE]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/bf16.h"
#include "trireme/base/philox.h"
#include "trireme/base/units.h"
#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/execute/rank_executor.h"
#include "trireme/kernels/cpu/matmul.h"
#include "trireme/model/flops.h"
#include "trireme/program/build.h"
#include "trireme/program/model_parts.h"
#include "trireme/program/verify.h"
#include "trireme/train/model_state.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class RandomTokens final : public BatchSource {
 public:
  RandomTokens(std::int64_t vocab, std::int64_t tokens) : vocab_(vocab), tokens_(tokens) {}
  void load(int, const MicroBatch& out) override {
    for (std::size_t i = 0; i < out.tokens.size(); ++i) {
      out.tokens[i] = static_cast<std::int32_t>(philox(1, philox_counter(i, 0))[0] %
                                                static_cast<std::uint32_t>(vocab_));
      out.labels[i] = static_cast<std::int32_t>(philox(2, philox_counter(i, 0))[0] %
                                                static_cast<std::uint32_t>(vocab_));
    }
  }
  [[nodiscard]] std::int64_t num_valid_tokens() const override { return tokens_; }

 private:
  std::int64_t vocab_, tokens_;
};

/// The matrix products of a program, each as often as the step runs it, on random data.
class ProductsAlone {
 public:
  ProductsAlone(const Program& program, kernels::MatmulEngine engine, DType dtype)
      : engine_(engine), dtype_(dtype) {
    const ModelSpec& spec = program.request.spec;
    const std::int64_t tokens = token_shape(program).tokens();
    for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
      if (is_linear(instruction.part)) {
        const LinearShape linear = linear_shape(spec, instruction.part);
        add(kind_of(instruction.op), tokens, linear.out, linear.in);
      }
      if (instruction.part == Part::kHead) add_head(spec, tokens);
    });
    const auto fill = [](std::vector<float>& values, std::int64_t elems, std::uint64_t key) {
      values.resize(static_cast<std::size_t>(elems));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = uniform_from_bits(philox(key, philox_counter(i, 0))[0]) - 0.5F;
      }
    };
    fill(a_, elems_[0], 3);
    fill(b_, elems_[1], 4);
    fill(c_, elems_[2], 5);
    if (dtype == DType::kBf16) {
      for (std::vector<float>* const values : {&a_, &b_})
        round_to_bf16(*values, std::as_writable_bytes(std::span(*values)).data());
    }
    scratch_.resize(static_cast<std::size_t>(scratch_bytes_) + 64);
  }

  void run() {
    void* scratch = scratch_.data();
    std::size_t space = scratch_.size();
    std::align(64, static_cast<std::size_t>(scratch_bytes_), scratch, space);
    for (kernels::Matmul* product : order_)
      product->run(a_.data(), b_.data(), nullptr, c_.data(), scratch);
  }
  [[nodiscard]] double flops() const { return flops_; }

 private:
  void add_head(const ModelSpec& spec, std::int64_t tokens) {
    for (const auto kind : {kernels::MatmulKind::kForward, kernels::MatmulKind::kInputGrad,
                            kernels::MatmulKind::kWeightGrad}) {
      for (std::int64_t first = 0; first < tokens; first += kHeadChunkTokens) {
        add(kind, std::min(kHeadChunkTokens, tokens - first), spec.vocab, spec.hidden);
      }
    }
  }
  static kernels::MatmulKind kind_of(Op op) {
    return op == Op::kBackwardInput    ? kernels::MatmulKind::kInputGrad
           : op == Op::kBackwardWeight ? kernels::MatmulKind::kWeightGrad
                                       : kernels::MatmulKind::kForward;
  }
  void add(kernels::MatmulKind kind, std::int64_t m, std::int64_t n, std::int64_t k) {
    auto& made = made_[{static_cast<int>(kind), m, n, k}];
    if (made == nullptr) {
      made = std::make_unique<kernels::Matmul>(
          kernels::MatmulShape{.kind = kind, .m = m, .n = n, .k = k, .dtype = dtype_}, engine_);
      scratch_bytes_ = std::max(scratch_bytes_, made->scratch_bytes());
      const bool is_forward = kind == kernels::MatmulKind::kForward;
      const bool is_weight = kind == kernels::MatmulKind::kWeightGrad;
      elems_[0] = std::max(elems_[0], is_forward ? m * k : m * n);
      elems_[1] = std::max(elems_[1], is_weight ? m * k : n * k);
      elems_[2] = std::max(elems_[2], is_forward ? m * n : is_weight ? n * k : m * k);
    }
    order_.push_back(made.get());
    flops_ += 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }

  kernels::MatmulEngine engine_;
  DType dtype_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>,
           std::unique_ptr<kernels::Matmul>>
      made_;
  std::vector<kernels::Matmul*> order_;
  std::array<std::int64_t, 3> elems_{};
  std::int64_t scratch_bytes_ = 0;
  double flops_ = 0;
  std::vector<float> a_, b_, c_;
  std::vector<std::byte> scratch_;
};

struct Case {
  std::string model;
  DType dtype = DType::kF32;
  int threads = 1;
  int repetitions = 3;
  Batch batch = {};
};

ModelSpec spec_of(const std::string& model, std::int64_t seq) {
  if (model == "llama") {
    return resolved({.family = Family::kLlama,
                     .layers = 8,
                     .hidden = 512,
                     .heads = 8,
                     .kv_heads = 4,
                     .ffn = 1408,
                     .vocab = 32000,
                     .max_seq = seq});
  }
  return resolved({.family = Family::kGpt2,
                   .layers = 12,
                   .hidden = 768,
                   .heads = 12,
                   .vocab = 50257,
                   .max_seq = std::max<std::int64_t>(seq, 1024),
                   .tied = true});
}

nlohmann::json bench(const Case& of) {
  set_rank_threads(of.threads);
  const ModelSpec spec = spec_of(of.model, of.batch.seq);
  Program program =
      build_train({.spec = spec, .layout = {}, .batch = of.batch, .compute = of.dtype});
  set_workspace_bytes(program, cpu_workspace_bytes(program, of.threads));
  require_valid(verify({program}));
  const Placement placement = place({&program});
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(make_cpu_backend(program, of.threads));
  RankExecutor executor({&program}, placement, std::move(backends), {}, {});
  ModelState(program, executor, 0).initialize(1);
  const auto hyper = executor.values<double>(0, program.whole(*program.find_buffer("hyper")));
  const std::array<double, HyperLayout::kCount> values = {1e-4, 0.9, 0.95, 1e-8,
                                                          0.1,  0.1, 0.05, 1.0};
  std::copy(values.begin(), values.end(),
            hyper.begin());  // lr, betas, eps, decay, corrections, clip
  RandomTokens source(spec.vocab, of.batch.tokens_per_step());
  ProductsAlone products(program, kernels::MatmulEngine::kBest, of.dtype);
  // Plain oneDNN multiplies bf16 where it can, else the same shapes in fp32.
  const bool has_library = of.dtype == DType::kF32 || kernels::has_bf16_products();
  ProductsAlone library(program, kernels::MatmulEngine::kLibrary,
                        has_library ? of.dtype : DType::kF32);
  std::vector<double> step_seconds, product_seconds, library_seconds;
  executor.run(0, {.source = &source, .step = 1});
  for (int i = 0; i < of.repetitions; ++i) {  // interleaved, so that all meet the same noise
    step_seconds.push_back(
        seconds_of([&] { executor.run(0, {.source = &source, .step = i + 2}); }));
    product_seconds.push_back(seconds_of([&] { products.run(); }));
    library_seconds.push_back(seconds_of([&] { library.run(); }));
  }
  const double tokens = static_cast<double>(of.batch.tokens_per_step());
  const double step = median(step_seconds), alone = median(product_seconds);
  const double flops = static_cast<double>(flops_per_token(spec, of.batch.seq).causal()) * tokens;
  return {{"model", of.model},
          {"parameters", ParameterTable(spec).num_elems()},
          {"dtype", dtype_name(of.dtype)},
          {"threads", of.threads},
          {"tokens_per_s", tokens / step},
          {"step_s", step},
          {"model_gflop_per_s", flops / step * 1e-9},
          {"products_gflop_per_s", products.flops() / alone * 1e-9},
          {"products_to_step", alone / step},
          {"onednn_to_products", median(library_seconds) / alone},
          {"onednn_dtype", dtype_name(has_library ? of.dtype : DType::kF32)},
          {"memory_bytes", executor.arena_bytes()}};
}

void print_row(const nlohmann::json& row) {
  fmt::print(
      "{:<6} {:<5} {:>7} {:>10.1f} {:>8.2f} {:>13.1f} {:>16.1f} {:>13.3f} {:>15.3f} {:>10}\n",
      row["model"].get<std::string>(), row["dtype"].get<std::string>(), row["threads"].get<int>(),
      row["tokens_per_s"].get<double>(), row["step_s"].get<double>(),
      row["model_gflop_per_s"].get<double>(), row["products_gflop_per_s"].get<double>(),
      row["products_to_step"].get<double>(), row["onednn_to_products"].get<double>(),
      format_bytes(row["memory_bytes"].get<std::int64_t>()));
}

int run(int argc, char** argv) {
  CLI::App app("Tokens per second of a training step, beside its matrix products alone");
  std::vector<std::string> models = {"gpt2", "llama"}, types = {"fp32", "bf16"};
  std::vector<int> threads = {1, 2};
  std::int64_t seq = 1024, micro_batch = 4;
  int repetitions = 3;
  std::string json_path;
  app.add_option("--models", models, "gpt2 (124M), llama (8 layers of 512)")
      ->delimiter(',')
      ->check(CLI::IsMember({"gpt2", "llama"}));
  app.add_option("--types", types, "fp32, bf16")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--threads", threads, "threads of the rank")->delimiter(',');
  app.add_option("--seq", seq, "tokens of a sequence");
  app.add_option("--micro-batch", micro_batch, "sequences of a step");
  app.add_option("--repetitions", repetitions, "measured steps after one that is not");
  app.add_option("--json", json_path, "file for the results");
  CLI11_PARSE(app, argc, argv);
  fmt::print("batch {} x {}, {}, products of bf16 operands in {}; medians of {} steps\n",
             micro_batch, seq, kernels::matmul_library_version(), kernels::bf16_matmul_arithmetic(),
             repetitions);
  fmt::print(
      "model  type  threads  tokens/s   step_s  model_GFLOP/s products_GFLOP/s products/step "
      "oneDNN/products     memory\n");
  nlohmann::json rows = nlohmann::json::array();
  for (const std::string& model : models) {
    for (const std::string& type : types) {
      for (const int count : threads) {
        rows.push_back(bench(
            {.model = model,
             .dtype = type == "bf16" ? DType::kBf16 : DType::kF32,
             .threads = count,
             .repetitions = repetitions,
             .batch = {.seq = seq, .micro_batch = micro_batch, .global_batch = micro_batch}}));
        print_row(rows.back());
      }
    }
  }
  if (!json_path.empty()) std::ofstream(json_path) << rows.dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(argc, argv);
}
