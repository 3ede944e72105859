// Cuts a kernel's work over the calling thread's OpenMP threads. Private to this layer. A body must
// not throw, and what it writes must not depend on how the work was cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <omp.h>

#include "trireme/base/units.h"
#include "trireme/kernels/cpu/vector/isa_kernels.h"

namespace trireme::kernels {

/// Threads for `count` pieces of work: one piece or one thread needs no parallel region.
[[nodiscard]] inline int threads_for(std::int64_t count) {
  return static_cast<int>(std::min<std::int64_t>(omp_get_max_threads(), count));
}

/// body(index) for each index in [0, count), in any order, handed out one by one.
template <typename Body>
void parallel_for(std::int64_t count, Body body) {
  const int num_threads = threads_for(count);
  if (num_threads <= 1) {
    for (std::int64_t index = 0; index < count; ++index) body(index);
    return;
  }
#pragma omp parallel for schedule(dynamic) num_threads(num_threads)
  for (std::int64_t index = 0; index < count; ++index) body(index);
}

/// body(Range) over [0, count), one range per thread. `grain`: items below which a thread is not
/// worth waking (a parallel region costs about 6 us).
template <typename Body>
void parallel_ranges(std::int64_t count, std::int64_t grain, Body body) {
  const int num_threads = threads_for(div_ceil(count, std::max<std::int64_t>(grain, 1)));
  if (num_threads <= 1) {
    if (count > 0) body(Range{.begin = 0, .end = count});
    return;
  }
  // Whole cache lines of floats, so that two threads never write to the same one.
  const std::int64_t share = round_up(div_ceil(count, num_threads), 16);
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (int thread = 0; thread < num_threads; ++thread) {
    const std::int64_t begin = std::min(thread * share, count);
    const std::int64_t end = std::min(begin + share, count);
    if (begin < end) body(Range{.begin = begin, .end = end});
  }
}

/// The same over rows (tokens) of `row_elems` elements each.
template <typename Body>
void parallel_rows(std::int64_t num_rows, std::int64_t row_elems, Body body) {
  constexpr std::int64_t kGrainElems = 16384;
  const std::int64_t grain =
      std::max<std::int64_t>(1, kGrainElems / std::max<std::int64_t>(row_elems, 1));
  const int num_threads = threads_for(div_ceil(num_rows, grain));
  if (num_threads <= 1) {
    if (num_rows > 0) body(Range{.begin = 0, .end = num_rows});
    return;
  }
#pragma omp parallel for schedule(static) num_threads(num_threads)
  for (int thread = 0; thread < num_threads; ++thread) {
    const Range rows = {.begin = num_rows * thread / num_threads,
                        .end = num_rows * (thread + 1) / num_threads};
    if (rows.begin < rows.end) body(rows);
  }
}

/// Elements below which an elementwise kernel stays on one thread.
constexpr std::int64_t kElementwiseGrain = 16384;

}  // namespace trireme::kernels
