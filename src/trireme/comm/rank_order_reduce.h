// Element-wise reduction of all ranks' buffers with one fixed association.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/comm/communicator.h"

namespace trireme {

/// targets[t][i] = ((sources[0][i] op sources[1][i]) op sources[2][i]) op ... for all t and i in
/// [0, num_elems). A target may be a source; any other overlap is forbidden. Element i depends on
/// nothing but the sources' elements i, so the result does not depend on how a buffer is cut.
/// Pointers are aligned to the element; reduction.dtype is kF32, kF64 or kBf16.
void reduce_in_rank_order(std::span<const std::byte* const> sources,
                          std::span<std::byte* const> targets, std::int64_t num_elems,
                          Reduction reduction);

}  // namespace trireme
