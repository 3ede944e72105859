// Times of messages and collectives between ranks that are threads.
#pragma once

#include <map>
#include <vector>

#include "trireme/simulate/kernel_call.h"

namespace trireme {

using TransferTimes = std::map<TransferCall, std::vector<double>>;

/// Measures each operation at each size between `num_ranks` threads that do nothing else, and adds
/// the seconds of one to `times`. Messages go between two of them.
void measure_transfers(int num_ranks, const std::vector<double>& sizes_bytes, TransferTimes& times);

/// Seconds from a store until a thread that sleeps on it runs: half a round trip of two threads.
[[nodiscard]] double measured_wake_seconds();

}  // namespace trireme
