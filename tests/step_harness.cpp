#include "step_harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "trireme/base/philox.h"
#include "trireme/base/units.h"
#include "trireme/comm/run_ranks.h"
#include "trireme/comm/threads/thread_world.h"
#include "trireme/execute/rank_resources.h"
#include "trireme/program/build.h"
#include "trireme/train/batch_sources.h"
#include "trireme/train/checkpointing.h"

namespace trireme {
namespace {

constexpr int kTrain = 0, kEval = 1;

void default_sample(std::int64_t vocab, std::int64_t sample, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> labels) {
  const auto draw = [&](std::uint64_t position) {
    const PhiloxBlock block =
        philox(11, philox_counter(position, static_cast<std::uint64_t>(sample)));
    return static_cast<std::int32_t>(block[0] % static_cast<std::uint32_t>(vocab));
  };
  for (std::size_t t = 0; t < tokens.size(); ++t) tokens[t] = draw(t);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    const bool is_masked = sample % 5 == 4 && t < labels.size() / 2;
    labels[t] = is_masked ? kIgnoredLabel : draw(t + 1);
  }
}

/// Samples of a step; counts the valid labels of this rank ahead, as a data loader does.
class HarnessSource final : public BatchSource {
 public:
  HarnessSource(const Program& program, const HarnessOptions& options)
      : program_(program), options_(options) {
    const BuildRequest& request = program.request;
    cut_ = batch_cut(request.layout, request.batch, request.rank);
    all_tokens_.resize(static_cast<std::size_t>(request.batch.seq));
    all_labels_.resize(all_tokens_.size());
  }
  void set_step(int step) {
    step_ = step;
    const auto seq = static_cast<std::size_t>(cut_.seq);
    std::vector<std::int32_t> tokens(seq), labels(seq);
    num_valid_tokens_ = 0;
    for (int micro_batch = 0; micro_batch < program_.num_micro_batches; ++micro_batch) {
      for (std::int64_t b = 0; b < cut_.micro_batch; ++b) {
        fill(step_ * program_.request.batch.global_batch + cut_.row(micro_batch, b), tokens,
             labels);
        num_valid_tokens_ += std::count_if(labels.begin(), labels.end(),
                                           [](std::int32_t label) { return label >= 0; });
      }
    }
  }

  void load(int micro_batch, const MicroBatch& out) override {
    const auto seq = static_cast<std::size_t>(cut_.seq);
    for (std::size_t b = 0; b < static_cast<std::size_t>(cut_.micro_batch); ++b) {
      const std::int64_t sample = step_ * program_.request.batch.global_batch +
                                  cut_.row(micro_batch, static_cast<std::int64_t>(b));
      const auto row = [&](std::span<std::int32_t> array) {
        return array.empty() ? array : array.subspan(b * seq, seq);
      };
      fill(sample, row(out.tokens), row(out.labels));
      if (!out.samples.empty()) out.samples[b] = sample;
    }
  }

  [[nodiscard]] std::int64_t num_valid_tokens() const override { return num_valid_tokens_; }

 private:
  /// The rank's positions of the whole sequence.
  void fill(std::int64_t sample, std::span<std::int32_t> tokens, std::span<std::int32_t> labels) {
    if (options_.sample) {
      options_.sample(sample, all_tokens_, all_labels_);
    } else {
      default_sample(program_.request.spec.vocab, sample, all_tokens_, all_labels_);
    }
    const auto take = [&](const std::vector<std::int32_t>& all, std::span<std::int32_t> own) {
      for (std::size_t t = 0; t < own.size(); ++t) {
        const std::int64_t position = cut_.pieces.position(static_cast<std::int64_t>(t));
        own[t] = all[static_cast<std::size_t>(position)];
      }
    };
    take(all_tokens_, tokens);
    take(all_labels_, labels);
  }

  const Program& program_;
  const HarnessOptions& options_;
  BatchCut cut_;
  std::vector<std::int32_t> all_tokens_, all_labels_;  ///< of one sequence
  int step_ = 0;
  std::int64_t num_valid_tokens_ = 0;
};

std::vector<RankPrograms> plan(const BuildRequest& base, const HarnessOptions& options) {
  std::vector<std::vector<Program>> programs;
  for (int rank = 0; rank < base.layout.world(); ++rank) {
    BuildRequest request = base;
    request.rank = rank;
    Program train = build_train(request);
    // As many sequences under every layout.
    Program eval = build_eval(request, train.num_micro_batches, roots_of(train));
    programs.push_back({std::move(train), std::move(eval)});
  }
  std::vector<RankPrograms> ranks = make_ready(std::move(programs), options.threads);
  for (RankPrograms& rank : ranks) {
    if (options.mutate) options.mutate(rank.programs[kTrain]);
  }
  return ranks;
}

/// One rank of the harness.
class HarnessRank {
 public:
  HarnessRank(const RankPrograms& programs, ThreadWorld& world, const HarnessOptions& options)
      : programs_(programs),
        options_(options),
        train_(programs.programs[kTrain]),
        rank_(train_.request.rank),
        source_(train_, options),
        resources_(programs, world, rank_, {.num_threads = options.threads}),
        executor_(resources_.executor()),
        state_(train_, executor_, kTrain) {
    options.fill ? options.fill(state_) : state_.initialize(options.seed);
  }

  void run(HarnessResult& result) {
    save_if_due(options_.first_step);
    for (int i = 0; i < options_.steps; ++i) {
      const int step = options_.first_step + i;
      set_hyper(step + 1);
      source_.set_step(step);
      if (options_.on_run) options_.on_run(step, true);
      executor_.run(0, {.source = &source_, .seed = options_.seed, .step = step + 1});
      if (options_.on_run) options_.on_run(step, false);
      if (rank_ == 0) report(result);
      if (i == 0) collect(StateKind::kGradient, "", result.first_gradients);
      if (options_.eval_every > 0 && (step + 1) % options_.eval_every == 0) evaluate(result);
      save_if_due(step + 1);
    }
    collect(StateKind::kMaster, "", result.weights);
    collect(StateKind::kMoment1, ".m", result.moments);
    collect(StateKind::kMoment2, ".v", result.moments);
    const auto rank = static_cast<std::size_t>(rank_);
    result.allocated_bytes[rank] = executor_.arena_bytes();
    result.planned_bytes[rank] = programs_.placement.arena_bytes;
    result.bytes_sent[rank] = resources_.bytes_sent();
    const int num_evals = options_.eval_every > 0 ? options_.steps / options_.eval_every : 0;
    for (const auto& [group, bytes] : program_bytes_sent(train_))
      result.predicted_sent[rank][group] += options_.steps * bytes;
    for (const auto& [group, bytes] : program_bytes_sent(programs_.programs[kEval]))
      result.predicted_sent[rank][group] += num_evals * bytes;
  }

 private:
  void save_if_due(int steps_done) {
    if (options_.checkpoint.empty() || steps_done != options_.checkpoint_step) return;
    std::optional<CheckpointStore> store;
    if (rank_ == 0) store.emplace(options_.checkpoint, Retention{});
    TrainConfig config;
    config.model.spec = train_.request.spec;
    save_checkpoint(store ? &*store : nullptr, state_,
                    {.config = config,
                     .run = {.step = steps_done, .updates = steps_done},
                     .environment = Environment{}},
                    resources_.host());
  }

  void set_hyper(int time) {
    const auto hyper = executor_.values<double>(0, train_.whole(*train_.find_buffer("hyper")));
    hyper[HyperLayout::kLr] = options_.lr;
    hyper[HyperLayout::kBeta1] = 0.9;
    hyper[HyperLayout::kBeta2] = 0.95;
    hyper[HyperLayout::kEps] = 1e-8;
    hyper[HyperLayout::kWeightDecay] = options_.weight_decay;
    hyper[HyperLayout::kCorrection1] = 1.0 - std::pow(0.9, time);
    hyper[HyperLayout::kCorrection2] = 1.0 - std::pow(0.95, time);
    hyper[HyperLayout::kMaxNorm] = options_.max_norm;
  }

  void report(HarnessResult& result) {
    result.losses.push_back(executor_.scalar<double>(0, "loss") /
                            executor_.scalar<double>(0, "num_tokens"));
    const auto coefficient = executor_.values<float>(0, train_.whole(*train_.find_buffer("coef")));
    result.grad_norms.push_back(static_cast<double>(coefficient[CoefficientLayout::kNorm]));
  }

  void evaluate(HarnessResult& result) {
    HarnessSource source(programs_.programs[kEval], options_);
    source.set_step(1000);
    executor_.run(1, {.source = &source});
    if (rank_ != 0) return;
    result.eval_losses.push_back(executor_.scalar<double>(1, "loss") /
                                 executor_.scalar<double>(1, "num_tokens"));
  }

  void collect(StateKind kind, std::string_view suffix, NamedTensors& out) {
    for (const StateTensor& tensor : state_.tensors(kind, "", suffix)) {
      std::vector<float> values = state_.gather(tensor, resources_.host());
      if (rank_ == 0) out[tensor.name] = std::move(values);
    }
  }

  const RankPrograms& programs_;
  const HarnessOptions& options_;
  const Program& train_;
  int rank_;
  HarnessSource source_;
  RankResources resources_;
  RankExecutor& executor_;
  ModelState state_;
};

}  // namespace

ModelSpec small_llama() {
  return resolved({.family = Family::kLlama,
                   .layers = 2,
                   .hidden = 24,
                   .heads = 6,
                   .kv_heads = 2,
                   .head_dim = 4,
                   .ffn = 40,
                   .vocab = 31,
                   .max_seq = 16});
}

HarnessResult run_steps(const ModelSpec& spec, const Layout& layout, const Batch& batch,
                        const HarnessOptions& options) {
  check_layout(spec, layout, batch);
  const auto ranks = plan({.spec = spec,
                           .layout = layout,
                           .batch = batch,
                           .compute = options.compute,
                           .reduce = options.reduce},
                          options);
  ThreadWorld world(layout.world());
  HarnessResult result;
  result.bytes_sent.resize(ranks.size());
  result.predicted_sent.resize(ranks.size());
  result.planned_bytes.resize(ranks.size());
  result.allocated_bytes.resize(ranks.size());
  run_ranks(world, [&](int rank) {
    HarnessRank(ranks[static_cast<std::size_t>(rank)], world, options).run(result);
  });
  return result;
}

std::string first_difference(const NamedTensors& a, const NamedTensors& b) {
  for (const auto& [name, values] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != values.size())
      return name + " is missing or of another size";
    if (std::memcmp(values.data(), other->second.data(), values.size() * sizeof(float)) != 0)
      return name;
  }
  return a.size() == b.size() ? "" : "the number of tensors";
}

void expect_equal_bits(const HarnessResult& run, const HarnessResult& due) {
  EXPECT_EQ(run.losses, due.losses);
  EXPECT_EQ(run.grad_norms, due.grad_norms);
  EXPECT_EQ(first_difference(run.first_gradients, due.first_gradients), "");
  EXPECT_EQ(first_difference(run.weights, due.weights), "");
  EXPECT_EQ(first_difference(run.moments, due.moments), "");
}

NamedTensors without_key_bias(NamedTensors tensors) {
  for (auto& [name, values] : tensors) {
    if (!name.ends_with("attn.c_attn.bias")) continue;
    const auto third = static_cast<std::ptrdiff_t>(values.size() / 3);
    values.erase(values.begin() + third, values.begin() + 2 * third);
  }
  return tensors;
}

TensorError largest_error(const NamedTensors& value, const NamedTensors& reference) {
  const auto largest = [](const std::vector<float>& values) {
    double most = 0;
    for (const float v : values) most = std::max(most, std::abs(static_cast<double>(v)));
    return most;
  };
  double most_of_all = 0;
  for (const auto& [name, values] : reference) most_of_all = std::max(most_of_all, largest(values));
  TensorError worst;
  for (const auto& [name, expected] : reference) {
    const auto found = value.find(name);
    if (found == value.end() || found->second.size() != expected.size())
      return {.error = HUGE_VAL, .name = name};
    const double scale = std::max(largest(expected), 1e-3 * most_of_all);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error =
          std::abs(static_cast<double>(found->second[i]) - static_cast<double>(expected[i])) /
          scale;
      if (!(error <= worst.error)) worst = {.error = error, .name = name};
    }
  }
  return worst;
}

TensorError largest_change(const NamedTensors& value, const NamedTensors& reference) {
  TensorError worst;
  for (const auto& [name, expected] : reference) {
    const std::vector<float>& found = value.at(name);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error =
          std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i]));
      if (!(error <= worst.error)) worst = {.error = error, .name = name};
    }
  }
  return worst;
}

}  // namespace trireme
