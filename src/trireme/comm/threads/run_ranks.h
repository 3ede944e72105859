// Starts one thread per rank and brings home the first failure.
#pragma once

#include <functional>

#include "trireme/comm/threads/thread_world.h"

namespace trireme {

/// Runs body(rank) in a thread of its own for each rank of `world` and joins all. When one throws,
/// the world is aborted, the others wake with PeerLost, and the exception of the rank that failed
/// first is rethrown here. A rank that returns has left: peers that still wait for it fail.
/// A body joins the threads it started before it returns or throws.
void run_ranks(ThreadWorld& world, const std::function<void(int rank)>& body);

}  // namespace trireme
