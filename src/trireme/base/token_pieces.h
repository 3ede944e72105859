// Which tokens of a sequence a rank holds: all of them or, with context parallelism, two pieces.
#pragma once

#include <cstdint>
#include <limits>

namespace trireme {

/// Positions of the tokens 0, 1, … that a rank holds: `piece_tokens` of them from `first` on, then
/// as many from `second` on. By default one run from position 0 on, of any length.
struct TokenPieces {
  static constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();
  std::int64_t piece_tokens = kEndless;
  std::int64_t first = 0;
  std::int64_t second = 0;

  bool operator==(const TokenPieces&) const = default;
  [[nodiscard]] bool is_cut() const { return piece_tokens != kEndless; }
  /// Tokens held of a sequence of `seq`.
  [[nodiscard]] std::int64_t num_tokens(std::int64_t seq) const {
    return is_cut() ? 2 * piece_tokens : seq;
  }
  [[nodiscard]] std::int64_t position(std::int64_t token) const {
    return token < piece_tokens ? first + token : second + token - piece_tokens;
  }
};

/// Zig-zag: of 2 * num_ranks equal pieces rank r holds piece r and, from the other end, piece
/// 2 * num_ranks - 1 - r, so that a causal mask leaves equal work to all (Megatron-LM's context
/// parallelism; Brandon et al. 2023, arXiv:2311.09431, stripe it). The whole sequence for one rank.
/// InternalError unless 2 * num_ranks divides `seq`.
[[nodiscard]] TokenPieces zigzag_pieces(std::int64_t seq, int num_ranks, int rank);

}  // namespace trireme
