#include "trireme/base/token_pieces.h"

#include "trireme/base/units.h"

namespace trireme {

TokenPieces zigzag_pieces(std::int64_t seq, int num_ranks, int rank) {
  if (num_ranks == 1) return {};
  const std::int64_t piece = div_exact(seq, 2 * std::int64_t{num_ranks});
  return {.piece_tokens = piece,
          .first = rank * piece,
          .second = (2 * std::int64_t{num_ranks} - 1 - rank) * piece};
}

}  // namespace trireme
