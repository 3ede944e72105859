// Starts a thread for each rank of this process and brings home the first failure.
#pragma once

#include <functional>

#include "trireme/comm/world.h"

namespace trireme {

/// Runs body(rank) in a thread of its own for each local rank of `world` and joins all. When one
/// throws, the world is aborted, the others wake with PeerLost, and the exception of the rank that
/// failed first is rethrown here. A rank that returns has left.
/// A body joins the threads it started before it returns or throws.
void run_ranks(World& world, const std::function<void(int rank)>& body);

}  // namespace trireme
