// Text generation: prefill and decode programs of one rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/execute/rank_executor.h"
#include "trireme/model/spec.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 1.0;  ///< 0 = the most likely token
  std::int64_t top_k = 0;    ///< 0 = all
  std::uint64_t seed = 0;
};

/// Continues token sequences. Holds the parameters, the key/value caches and both programs in one
/// arena. Made and used by one thread.
class Generator {
 public:
  /// `spec` is resolved. `num_threads`: OpenMP team of the calling thread.
  Generator(const ModelSpec& spec, int num_threads);
  Generator(Generator&& other) noexcept;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  Generator& operator=(Generator&&) = delete;
  ~Generator();

  /// Program 0 of the executor: its parameters are to be filled by the caller.
  [[nodiscard]] const Program& program() const;
  [[nodiscard]] RankExecutor& executor();

  /// Natural-log probabilities are not formed: logits [V] of the token after `tokens` (1 to max_seq
  /// tokens).
  [[nodiscard]] std::span<const float> prefill(std::span<const std::int32_t> tokens);
  /// Logits after one token more. Needs a prefill; at max_seq tokens UsageError.
  [[nodiscard]] std::span<const float> decode(std::int32_t token);

  /// Calls `emit` with each new token until `num_tokens` or until emit returns false. A full
  /// context drops its older half and is prefilled again. Token i is a function of (seed, i) and
  /// the logits.
  void generate(std::span<const std::int32_t> prompt, std::int64_t num_tokens,
                const SamplingOptions& options, const std::function<bool(std::int32_t)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The token drawn from `logits` [V] with the random number `index` of the seed.
[[nodiscard]] std::int32_t sample_token(std::span<const float> logits,
                                        const SamplingOptions& options, std::uint64_t index);

}  // namespace trireme
