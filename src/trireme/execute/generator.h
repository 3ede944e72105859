// Text generation: prefill and decode programs of one replica of a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "trireme/execute/rank_resources.h"

namespace trireme {

struct SamplingOptions {
  double temperature = 1.0;  ///< 0 = the most likely token
  std::int64_t top_k = 0;    ///< 0 = all
  std::uint64_t seed = 0;
};

/// Continues token sequences. Each rank of the layout is a thread that holds its part of the
/// parameters and of the key/value caches, and both programs, in one arena. Used by one thread,
/// which is no rank. A rank that fails ends all of them: its exception is thrown here, and by every
/// later call.
class Generator {
 public:
  /// `spec` is resolved. Of `layout`, what concerns training alone has no effect: sp, recompute,
  /// zero, dp_sync. Throws UsageError as check_layout and Pipeline do, and unless dp = 1.
  Generator(const ModelSpec& spec, const Layout& layout, const RankOptions& options);
  Generator(Generator&& other) noexcept;
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;
  Generator& operator=(Generator&&) = delete;
  ~Generator();

  /// Calls `work` for each rank, in its thread, all at once. Its parameters are those of program 0
  /// of the executor, which is `program`; the caller fills them.
  void on_ranks(const std::function<void(const Program& program, RankExecutor& executor)>& work);

  /// Natural-log probabilities are not formed: logits [V] of the token after `tokens` (1 to max_seq
  /// tokens), valid until the next call. Bitwise equal for every pp and schedule; tp sums in
  /// another order.
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
