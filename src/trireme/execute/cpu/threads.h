// The OpenMP team of a rank and what the machine can do with it.
#pragma once

#include <cstdint>

#include "trireme/program/program.h"

namespace trireme {

/// The calling thread may run on any core again: OMP_PROC_BIND binds the process's first thread,
/// and rank threads inherit its mask (measured: half the speed).
void run_on_any_core();

/// Sets the calling thread's OpenMP team; kernels and matrix products created afterwards use it.
/// The team inherits the thread's cores as they are now. Throws ResourceError if OpenMP's settings
/// do not allow a team of that size.
void set_rank_threads(int num_threads);

/// Where the teams of the `num_ranks` ranks of this process have as many threads as it may use
/// cores, the calling thread, of `rank`, and all that it starts from now on keep to cores of their
/// own. Else the scheduler wakes a rank on the core of a peer that it has met, and leaves its own
/// idle (measured: 2 tensor-parallel ranks on 2 cores take a fourth longer).
void keep_to_own_cores(int rank, int num_ranks, int num_threads);

/// Cores that the calling thread may use, which in a rank's thread can be the rank's own, and not
/// more than OpenMP's settings allow threads.
[[nodiscard]] int num_available_cores();

/// Largest workspace that the CPU kernels of `program` need with that team. Creates the kernels in
/// a thread of its own and drops them.
[[nodiscard]] std::int64_t cpu_workspace_bytes(const Program& program, int num_threads);

/// FLOP/s of one 1024 × 1024 × 1024 product of operands of type `compute` (kF32 or kBf16) on the
/// calling thread's team: best of several within about `seconds`.
[[nodiscard]] double measured_peak_flops(DType compute, double seconds);

}  // namespace trireme
