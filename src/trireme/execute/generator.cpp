#include "trireme/execute/generator.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "trireme/base/errors.h"
#include "trireme/base/philox.h"
#include "trireme/execute/arena.h"
#include "trireme/execute/thread_ranks.h"
#include "trireme/program/build.h"

namespace trireme {
namespace {

constexpr int kPrefill = 0, kDecode = 1;

BuildRequest request_of(const ModelSpec& spec, Layout layout) {
  if (spec.max_seq < 1) {
    throw UsageError(
        fmt::format("[generate] model.max_seq = {}: generation needs a context of at least one "
                    "token; set model.max_seq",
                    spec.max_seq));
  }
  if (layout.dp > 1) {
    throw UsageError(fmt::format(
        "[generate] dp = {}: one text is continued, by one replica of the model; use dp = 1",
        layout.dp));
  }
  if (layout.cp > 1) {
    throw UsageError(fmt::format(
        "[generate] cp = {}: one text is continued, by ranks that hold all of it; use cp = 1",
        layout.cp));
  }
  layout.sp = false;  // decoding has one token, which cannot be cut
  const Batch batch{.seq = spec.max_seq, .micro_batch = 1, .global_batch = 1};
  check_layout(spec, layout, batch);
  if (layout.world() > kMaxThreadRanks) {
    throw UsageError(
        fmt::format("[generate] pp = {} and tp = {}: {} ranks, at most {} fit one "
                    "process; use smaller degrees",
                    layout.pp, layout.tp, layout.world(), kMaxThreadRanks));
  }
  return {.spec = spec, .layout = std::move(layout), .batch = batch};
}

/// Prefill and decode of every rank.
std::vector<RankPrograms> plan_of(BuildRequest request, int num_threads) {
  std::vector<std::vector<Program>> programs;
  for (request.rank = 0; request.rank < request.layout.world(); ++request.rank) {
    programs.push_back({build_prefill(request), build_decode(request)});
  }
  std::vector<RankPrograms> ranks = make_ready(std::move(programs), num_threads);
  require_memory(total_arena_bytes(ranks), request.layout.world());
  return ranks;
}

void check_tokens(std::span<const std::int32_t> tokens, const ModelSpec& spec) {
  const auto max_tokens = static_cast<std::size_t>(spec.max_seq);
  if (tokens.empty() || tokens.size() > max_tokens) {
    throw UsageError(fmt::format("[generate] {} tokens: the context holds 1 to {}; give as many",
                                 tokens.size(), max_tokens));
  }
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < spec.vocab) continue;
    throw UsageError(
        fmt::format("[generate] token {}: the vocabulary has 0 to {}; encode the text "
                    "with the model's own tokenizer",
                    token, spec.vocab - 1));
  }
}

/// Gives a program its tokens; those beyond the sequence are 0.
class TokenSource final : public BatchSource {
 public:
  explicit TokenSource(std::span<const std::int32_t> tokens) : tokens_(tokens) {}
  void load(int /*micro_batch*/, const MicroBatch& out) override {
    const auto end = std::copy(tokens_.begin(), tokens_.end(), out.tokens.begin());
    std::fill(end, out.tokens.end(), 0);
  }
  [[nodiscard]] std::int64_t num_valid_tokens() const override { return 0; }

 private:
  std::span<const std::int32_t> tokens_;
};

void check_sampling(std::span<const float> logits, const SamplingOptions& options) {
  if (!std::isfinite(options.temperature) || options.temperature < 0) {
    throw UsageError(
        fmt::format("[generate] temperature = {}: must be a finite number >= 0; 0 takes the most "
                    "likely token, 1 samples the model's distribution",
                    options.temperature));
  }
  if (options.top_k < 0) {
    throw UsageError(fmt::format("[generate] top_k = {}: must be >= 0; 0 samples from all tokens",
                                 options.top_k));
  }
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    throw ResourceError(
        "[generate] the logits are not finite: the weights are damaged or training diverged; use "
        "an earlier checkpoint");
  }
}

/// The `top_k` tokens of greatest logit, all if 0, in order of their numbers.
std::vector<std::int32_t> candidates(std::span<const float> logits, std::int64_t top_k) {
  std::vector<std::int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  if (top_k == 0 || top_k >= std::ssize(tokens)) return tokens;
  const auto is_likelier = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::nth_element(tokens.begin(), tokens.begin() + top_k, tokens.end(), is_likelier);
  tokens.resize(static_cast<std::size_t>(top_k));
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

/// Uniform in [0, 1) with 53 bits.
double uniform(std::uint64_t seed, std::uint64_t index) {
  const PhiloxBlock block = philox(philox_key(seed, "sample"), philox_counter(index, 0));
  const std::uint64_t bits = (std::uint64_t{block[0]} << 32) | block[1];
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace

struct Generator::State {
  State(const BuildRequest& request, const RankOptions& options)
      : spec(request.spec),
        programs(plan_of(request, options.num_threads)),
        ranks(programs, options) {
    while (!program(logits_rank, kPrefill).find_buffer("logits")) ++logits_rank;
  }

  ModelSpec spec;
  std::vector<RankPrograms> programs;  ///< by rank
  ThreadRanks ranks;
  int logits_rank = 0;      ///< the first of the last stage
  std::int64_t length = 0;  ///< tokens in the caches

  [[nodiscard]] const Program& program(int rank, int index) const {
    return programs.at(static_cast<std::size_t>(rank)).programs.at(static_cast<std::size_t>(index));
  }

  std::span<const float> run(int index, std::span<const std::int32_t> tokens,
                             std::int64_t length_input) {
    std::span<const float> logits;
    ranks.run([&](int rank, RankResources& resources) {
      RankExecutor& executor = resources.executor();
      TokenSource source(tokens);
      executor.scalar<std::int64_t>(index, "length") = length_input;
      executor.run(index, {.source = &source});
      if (rank != logits_rank) return;
      const Program& of = program(rank, index);
      logits = executor.values<float>(index, of.whole(*of.find_buffer("logits")));
    });
    return logits;
  }
};

Generator::Generator(const ModelSpec& spec, const Layout& layout, const RankOptions& options)
    : state_(std::make_unique<State>(request_of(spec, layout), options)) {}

Generator::Generator(Generator&& other) noexcept = default;
Generator::~Generator() = default;

void Generator::on_ranks(
    const std::function<void(const Program& program, RankExecutor& executor)>& work) {
  state_->ranks.run([&](int rank, RankResources& resources) {
    work(state_->program(rank, kPrefill), resources.executor());
  });
}

std::span<const float> Generator::prefill(std::span<const std::int32_t> tokens) {
  check_tokens(tokens, state_->spec);
  state_->length = std::ssize(tokens);
  return state_->run(kPrefill, tokens, state_->length);
}

std::span<const float> Generator::decode(std::int32_t token) {
  const std::span<const std::int32_t> one(&token, 1);
  check_tokens(one, state_->spec);
  if (state_->length < 1 || state_->length >= state_->spec.max_seq) {
    throw UsageError(
        fmt::format("[generate] {} tokens in a context of {}: decoding needs one before it and "
                    "room for one more; prefill a shorter sequence first",
                    state_->length, state_->spec.max_seq));
  }
  return state_->run(kDecode, one, state_->length++);
}

void Generator::generate(std::span<const std::int32_t> prompt, std::int64_t num_tokens,
                         const SamplingOptions& options,
                         const std::function<bool(std::int32_t)>& emit) {
  const auto max_tokens = static_cast<std::size_t>(state_->spec.max_seq);
  const std::size_t kept = std::min(prompt.size(), max_tokens);
  std::vector<std::int32_t> context(prompt.end() - static_cast<std::ptrdiff_t>(kept), prompt.end());
  std::span<const float> logits = prefill(context);
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    const std::int32_t token = sample_token(logits, options, static_cast<std::uint64_t>(i));
    if (!emit(token) || i + 1 == num_tokens) return;
    context.push_back(token);
    if (context.size() > max_tokens) {
      context.erase(context.begin(),
                    context.begin() + static_cast<std::ptrdiff_t>(context.size() / 2));
      logits = prefill(context);
    } else {
      logits = decode(token);
    }
  }
}

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options,
                          std::uint64_t index) {
  check_sampling(logits, options);
  const auto most = std::max_element(logits.begin(), logits.end());
  if (options.temperature == 0) return static_cast<std::int32_t>(most - logits.begin());
  const std::vector<std::int32_t> tokens = candidates(logits, options.top_k);
  std::vector<double> cumulative;
  double sum = 0;
  for (const std::int32_t token : tokens) {
    const double below_most = double{logits[static_cast<std::size_t>(token)]} - double{*most};
    sum += std::exp(below_most / options.temperature);
    cumulative.push_back(sum);
  }
  const auto drawn =
      std::upper_bound(cumulative.begin(), cumulative.end(), uniform(options.seed, index) * sum);
  const auto last = static_cast<std::ptrdiff_t>(tokens.size()) - 1;  // rounding may pass the end
  return tokens[static_cast<std::size_t>(std::min(drawn - cumulative.begin(), last))];
}

}  // namespace trireme
