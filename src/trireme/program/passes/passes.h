// The passes that turn a model into a training step, one file each, in the order in which they run.
#pragma once

#include "trireme/program/local_model.h"
#include "trireme/program/program.h"
#include "trireme/program/roots.h"

namespace trireme {

/// Tensor parallelism (Megatron-LM, Shoeybi et al. 2019, arXiv:1909.08053, section 3): the builder
/// has given each rank its share of heads, feed-forward width and vocabulary; this adds the sums
/// over tp that make up for it, and what must happen once after them.
void tensor_parallel(Program& program, const LocalModel& model);

/// Sequence parallelism (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2): norms, dropout
/// and the residual stream on 1/tp of the tokens.
void sequence_parallel(Program& program, const LocalModel& model);

/// Activation recomputation (Chen et al. 2016, arXiv:1604.06174; selective: Korthikanti et al.
/// 2022, arXiv:2205.05198): drops kept activations and inserts RECOMP before their first backward
/// reader.
void recompute(Program& program);

/// Context parallelism: each rank has two pieces of every sequence and attends to the keys and
/// values of all ranks, which go round a ring beside the computation (Liu et al. 2023,
/// arXiv:2310.01889) or are gathered before it (Dubey et al. 2024, arXiv:2407.21783, section
/// 3.3.2). Nothing with one rank. Behind recomputation: what travels is not kept, but travels again
/// in the backward pass.
void context_parallel(Program& program, const LocalModel& model);

/// Pipeline parallelism: cuts the body of each stage into forward and backward (or its halves),
/// calls them in the order of the schedule, and sends and receives between stages in the order of
/// the virtual clock. Without a pipeline: calls of the body, micro-batch after micro-batch.
void pipeline(Program& program, const LocalModel& model);

/// Buffers that live from one call of a micro-batch to a later one get as many frames as
/// micro-batches are in flight.
void assign_frames(Program& program);

/// Global token count before the first backward, 1/N as the only scale, loss summed in fp64.
void sum_loss(Program& program);

/// A tied table's gradient as head is added once, after the last micro-batch, to its gradient as
/// embedding, where one rank holds both.
void tie_embeddings(Program& program);

/// Moves parameters and gradients into bucket roots, in the order in which gradients are completed.
void bucket(Program& program, const LocalModel& model);

/// ZeRO-2 (Rajbhandari et al. 2020, arXiv:1910.02054, section 5.2) and 3: buckets whose gradients
/// are reduced at once are reduced behind their last writer, into the rank's shard.
void shard_gradients(Program& program, const LocalModel& model);

/// Gradient accumulation: the first call that writes a gradient writes it (mode W), later ones add
/// (mode A).
void accumulate(Program& program);

/// Sums the gradients of what several ranks of the model hold: tied tables of two stages, parts of
/// what is whole on every tensor-parallel rank, the two copies of DualPipe.
void sum_replicas(Program& program, const LocalModel& model);

/// Data parallelism, naive and bucketed: one all-reduce per bucket after the backward pass.
void all_reduce_gradients(Program& program);

/// Overlap (Li et al. 2020, arXiv:2006.15704, section 3.2.3): starts a bucket's reduction right
/// after the last writer of the bucket, found by def-use.
void overlap_reductions(Program& program);

/// Global gradient norm, each distinct element once, and the clip coefficient.
void clip(Program& program, const LocalModel& model);

/// AdamW on every trainable parameter.
void optimize(Program& program);

/// ZeRO-1 (arXiv:1910.02054, section 5.1): reduce-scatter instead of all-reduce, optimizer on the
/// own shard of each bucket, all-gather of parameters (which ZeRO-3 leaves to the parts).
void shard_optimizer(Program& program);

/// ZeRO-3 (arXiv:1910.02054, section 5.3): a unit's parameters are gathered before the first part
/// that reads them, `prefetch` units ahead, and dropped after the last one of a forward or backward
/// pass; or gathered once a step and held.
void gather_parameters(Program& program);

/// Gives buckets that are reduced at once a few slots of memory in turn.
void share_buckets(Program& program);

/// Derives what each instruction waits for on other streams from its operands.
void derive_events(Program& program);

/// Marks the instruction that ends each transient buffer's life.
void derive_lifetimes(Program& program);

}  // namespace trireme
