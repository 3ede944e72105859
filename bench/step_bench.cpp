// Tokens per second of one rank's training step beside the sum of its matrix products alone, in one
// run.
//
//     build/release/trireme_bench_step [--layers 12] [--repetitions 3] [--threads 1,2] [--seq 1024]
//     [--micro-batch 4]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "trireme/base/philox.h"
#include "trireme/base/units.h"
#include "trireme/execute/cpu/cpu_backend.h"
#include "trireme/execute/cpu/threads.h"
#include "trireme/execute/rank_executor.h"
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
  explicit ProductsAlone(const Program& program) {
    const ModelSpec& spec = program.request.spec;
    const std::int64_t tokens = token_shape(program).tokens();
    for_each_instruction(program, [&](const Call&, int, const Instruction& instruction, int) {
      const bool is_linear = instruction.part == Part::kQkv || instruction.part == Part::kProj ||
                             instruction.part == Part::kMlpUp || instruction.part == Part::kMlpDown;
      if (is_linear) {
        const LinearShape linear = linear_shape(spec, instruction.part);
        add(kind_of(instruction.op), tokens, linear.out, linear.in);
      }
      if (instruction.part == Part::kHead) add_head(spec, tokens);
    });
    const auto fill = [&](std::vector<float>& values, std::int64_t elems, std::uint64_t key) {
      values.resize(static_cast<std::size_t>(elems));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = uniform_from_bits(philox(key, philox_counter(i, 0))[0]) - 0.5F;
      }
    };
    fill(a_, elems_[0], 3);
    fill(b_, elems_[1], 4);
    fill(c_, elems_[2], 5);
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
    constexpr std::int64_t kChunk = 256;
    for (const auto kind : {kernels::MatmulKind::kForward, kernels::MatmulKind::kInputGrad,
                            kernels::MatmulKind::kWeightGrad}) {
      for (std::int64_t first = 0; first < tokens; first += kChunk) {
        add(kind, std::min(kChunk, tokens - first), spec.vocab, spec.hidden);
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
          kernels::MatmulShape{.kind = kind, .m = m, .n = n, .k = k});
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

void bench(const ModelSpec& spec, const Batch& batch, int threads, int repetitions) {
  set_rank_threads(threads, false);
  Program program = build_train({.spec = spec, .layout = {}, .batch = batch});
  set_workspace_bytes(program, cpu_workspace_bytes(program, threads));
  require_valid(verify({program}));
  const Placement placement = place({&program});
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(std::make_unique<CpuBackend>(program, threads));
  RankExecutor executor({&program}, placement, std::move(backends), {}, {});
  ModelState(program, executor, 0).initialize(1);
  const auto hyper = executor.values<double>(0, program.whole(*program.find_buffer("hyper")));
  const std::array<double, HyperLayout::kCount> values = {1e-4, 0.9, 0.95, 1e-8,
                                                          0.1,  0.1, 0.05, 1.0};
  std::copy(values.begin(), values.end(),
            hyper.begin());  // lr, betas, eps, decay, corrections, clip
  RandomTokens source(spec.vocab, batch.tokens_per_step());
  ProductsAlone products(program);
  std::vector<double> step_seconds, product_seconds;
  executor.run(0, {.source = &source, .step = 1});
  for (int i = 0; i < repetitions; ++i) {  // interleaved, so that both meet the same noise
    step_seconds.push_back(
        seconds_of([&] { executor.run(0, {.source = &source, .step = i + 2}); }));
    product_seconds.push_back(seconds_of([&] { products.run(); }));
  }
  const double tokens = static_cast<double>(batch.tokens_per_step());
  const double step = median(step_seconds), alone = median(product_seconds);
  const double flops = static_cast<double>(flops_per_token(spec, batch.seq).causal()) * tokens;
  fmt::print("{:>7} {:>12.1f} {:>10.2f} {:>14.1f} {:>14.1f} {:>17.1f} {:>16.3f} {:>11}\n", threads,
             tokens / step, step, flops / step * 1e-9, tokens / alone,
             products.flops() / alone * 1e-9, alone / step, format_bytes(executor.arena_bytes()));
}

int run(int argc, char** argv) {
  CLI::App app(
      "Tokens per second of a GPT-2 124M training step in fp32, beside its matrix products alone");
  std::int64_t layers = 12, seq = 1024, micro_batch = 4;
  int repetitions = 3;
  std::vector<int> threads = {1, 2};
  app.add_option("--layers", layers, "layers (12 = GPT-2 124M)");
  app.add_option("--seq", seq, "tokens of a sequence");
  app.add_option("--micro-batch", micro_batch, "sequences of a step");
  app.add_option("--repetitions", repetitions, "measured steps after one that is not");
  app.add_option("--threads", threads, "threads of the rank")->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  const ModelSpec spec = resolved({.family = Family::kGpt2,
                                   .layers = layers,
                                   .hidden = 768,
                                   .heads = 12,
                                   .vocab = 50257,
                                   .max_seq = std::max<std::int64_t>(seq, 1024),
                                   .tied = true});
  fmt::print("GPT-2, {} parameters, batch {} x {}, fp32, {}; medians of {} steps\n",
             format_count(ParameterTable(spec).num_elems()), micro_batch, seq,
             kernels::matmul_library_version(), repetitions);
  fmt::print(
      "threads step_tokens/s  step_secs  model_GFLOP/s  prod_tokens/s  products_GFLOP/s  "
      "products/step      memory\n");
  for (const int count : threads) {
    bench(spec, {.seq = seq, .micro_batch = micro_batch, .global_batch = micro_batch}, count,
          repetitions);
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  return trireme::run(argc, argv);
}
