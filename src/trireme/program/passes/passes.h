// The passes that turn a model into a training step, one file each, in the order in which they run.
#pragma once

#include "trireme/program/program.h"
#include "trireme/program/roots.h"

namespace trireme {

/// Activation recomputation (Chen et al. 2016, arXiv:1604.06174; selective: Korthikanti et al.
/// 2022, arXiv:2205.05198): drops kept activations and inserts RECOMP before their first backward
/// reader.
void recompute(Program& program);

/// Gradient accumulation: the template "micro" becomes first (gradients in mode W), next and last
/// (mode A), called for micro-batches 0..m-1 in ascending order.
void accumulate(Program& program);

/// Global token count before the first backward, 1/N as the only scale, loss summed in fp64.
void sum_loss(Program& program);

/// A tied table's gradient as head is added once, after the last micro-batch, to its gradient as
/// embedding.
void tie_embeddings(Program& program);

/// Moves parameters and gradients into bucket roots, in the order in which gradients are completed.
void bucket(Program& program);

/// Data parallelism, naive and bucketed: one all-reduce per bucket after the backward pass.
void all_reduce_gradients(Program& program);

/// Overlap (Li et al. 2020, arXiv:2006.15704, section 3.2.3): starts a bucket's reduction right
/// after the last writer of the bucket, found by def-use.
void overlap_reductions(Program& program);

/// Global gradient norm, each distinct element once, and the clip coefficient.
void clip(Program& program);

/// AdamW on every trainable parameter.
void optimize(Program& program);

/// ZeRO-1 (Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1): reduce-scatter instead of
/// all-reduce, optimizer on the own shard of each bucket, all-gather of parameters.
void shard_optimizer(Program& program);

/// Derives what each instruction waits for on other streams from its operands.
void derive_events(Program& program);

/// Marks the instruction that ends each transient buffer's life.
void derive_lifetimes(Program& program);

}  // namespace trireme
