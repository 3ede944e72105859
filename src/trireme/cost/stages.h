// Which layers a rank of the pipeline has, and how many micro-batches it keeps in flight.
#pragma once

#include <vector>

#include "trireme/cost/profile.h"
#include "trireme/cost/workload.h"

namespace trireme {

/// What one rank of the pipeline computes, over all its chunks.
struct StageShare {
  int layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  bool operator==(const StageShare&) const = default;
};

/// By stage: a rank's chunks are stages of their own. As stage_shares() has it, whose sums these
/// are.
[[nodiscard]] std::vector<StageShare> chunk_shares(const Workload& workload, StageSplit split);

/// By rank of the pipeline. Layers go to pp * chunks stages in the profile's way, or as
/// layout.stages says; stage s belongs to rank s mod pp, of zb-v to the rank that it passes on its
/// way down and back.
[[nodiscard]] std::vector<StageShare> stage_shares(const Workload& workload, StageSplit split);

/// Micro-batches whose activations a rank of the pipeline keeps at its peak, in units of what all
/// its layers keep for one: gpipe m, 1f1b min(m, pp - rank), interleaved with v chunks
/// pp + (pp - 1) / v on the first rank (Korthikanti et al. 2022, section 4.2.3), zb-h1 as 1f1b,
/// zb-v pp - rank / 2, zb-h2 2 pp - 1, dualpipe pp + 1.
[[nodiscard]] double micro_batches_in_flight(const Workload& workload, int rank);

/// The same where each chunk has memory of its own, as in the frames of a placed program: the sum
/// of the chunks' peaks, which interleaved does not reach all at once.
[[nodiscard]] double micro_batches_in_frames(const Workload& workload, int rank);

/// Micro-batches whose gradients of weights a rank computes later, at its peak: of zb-h1 and zb-v
/// as many as there are ranks before it (counted from the orders of program/schedules).
[[nodiscard]] double weight_halves_in_flight(const Workload& workload, int rank);

/// The schedule computes gradients of weights apart from those of inputs.
[[nodiscard]] bool splits_backward(const Layout& layout);

/// Share of the time that a 1f1b pipeline spends in filling and draining that is left idle under
/// the layout's schedule: 1/v for interleaved with pp micro-batches or more; with F = I = W, zb-h1
/// and zb-h2 (F + B - 2W) / (F + B) = 1/3 and, with 2 pp or more, zb-v half of that: the step ends
/// with the optimizer, for which the last weight gradients are waited (Qi et al. 2024,
/// arXiv:2401.10241 and arXiv:2405.15362, let the optimizer of a stage go ahead and roll back).
[[nodiscard]] double bubble_share(const Layout& layout);

}  // namespace trireme
